//! The tree of modules, for any names of classes and with any rows lost.

use floodmark_analysis::{By, Detail, Question, report};
use floodmark_trace::{
    Batch, CodeRow, Device, Ending, EventKind, Header, Micros, ModuleRow, Row, StackRow, Trace,
    TraceWriter, read_trace, stack_flags,
};

/// A module: its id, the root that its name starts from, its class, its name.
type Defined<'a> = (u32, u32, &'a str, &'a str);

/// A recording with an allocation of 1 MiB on each of these calls, each made by the module of the call before.
fn nested(modules: &[Defined<'_>], calls: &[u32]) -> Trace {
    let module = |&(id, root, class, name): &Defined<'_>| {
        let (class, name) = (class.to_owned(), name.to_owned());
        ModuleRow { id, root, class, name }
    };
    let stack = |(id, &module): (u32, &u32)| {
        let flags = stack_flags::MODULE;
        StackRow { id, parent: id - 1, code: 1, line: 1, module, flags }
    };
    let alloc = |(stack, _): (u32, &u32)| {
        let row = Row::new(EventKind::Alloc, Device::cuda(0), 0, Micros(u64::from(stack)));
        Row { addr: u64::from(stack) << 20, bytes: 1 << 20, stack, ..row }
    };
    let batch = Batch {
        codes: vec![CodeRow { id: 1, first_line: 1, file: "m.py".into(), name: "f".into() }],
        modules: modules.iter().map(module).collect(),
        stacks: (1..).zip(calls).map(stack).collect(),
        rows: (1..).zip(calls).map(alloc).collect(),
        ..Batch::default()
    };
    let mut writer = TraceWriter::new(Vec::new(), &Header::default()).unwrap();
    writer.write_batch(&batch).unwrap();
    read_trace(&writer.finish(&Ending::default()).unwrap(), &[]).unwrap()
}

/// The rows as `MiB name`, indented by their depth.
fn tree(trace: &Trace) -> String {
    let question = Question { by: By::Module, ..Question::default() };
    let mut text = String::new();
    for row in report(trace, &question).unwrap().rows {
        let Detail::Module { depth, .. } = row.detail else { panic!("a report by module") };
        text += &format!("{}{} {}\n", "  ".repeat(depth as usize), row.bytes.0 >> 20, row.location);
    }
    text
}

#[test]
fn a_root_whose_class_has_a_dot_in_its_name_is_one_node() {
    let modules = [(1, 1, "my.Net", ""), (2, 1, "Block", "block"), (3, 1, "Linear", "block.lin")];
    insta::assert_snapshot!(tree(&nested(&modules, &[1, 2, 3])), @"
    3 my.Net
      2 block
        1 block.lin
    ");
}

#[test]
fn two_roots_whose_classes_have_dots_are_two_trees() {
    let modules = [
        (1, 1, "a.Net", ""),
        (2, 1, "Linear", "lin"),
        (3, 3, "b.Net", ""),
        (4, 3, "Linear", "lin"),
    ];
    insta::assert_snapshot!(tree(&nested(&modules, &[1, 2, 3, 4])), @"
    2 a.Net
      1 a.Net.lin
    2 b.Net
      1 b.Net.lin
    ");
}

#[test]
fn a_module_without_a_name_is_inside_the_one_that_called_it() {
    let modules = [(1, 1, "Net", ""), (2, 1, "Block", "block"), (3, 0, "my.Lost", "")];
    insta::assert_snapshot!(tree(&nested(&modules, &[1, 2, 3, 3])), @"
    4 Net
      3 block
        2 block.<my.Lost>
          1 block.<my.Lost>.<my.Lost>
    ");
}

/// The frame with the root's row was damaged, or is missing from the journal.
#[test]
fn modules_whose_root_is_not_in_the_file_are_a_tree() {
    let modules = [(2, 1, "Block", "block"), (3, 1, "Linear", "block.lin")];
    insta::assert_snapshot!(tree(&nested(&modules, &[2, 3])), @"
    2 block
      1 block.lin
    ");
    // A root whose record claims that it is inside another module.
    let modules = [(1, 2, "my.Net", "block"), (2, 1, "Block", "x.y")];
    insta::assert_snapshot!(tree(&nested(&modules, &[1, 2])), @"
    1 Block
      1 Block.block
    1 my
      1 my.Net
        1 my.Net.x
          1 my.Net.x.y
    ");
}
