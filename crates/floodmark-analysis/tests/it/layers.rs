//! The memory of each layer of a model.

use floodmark_analysis::{Layer, LayerEventKind, LayerQuestion, LayerSource, Layers, layers};
use floodmark_trace::Bytes;

use crate::trace;

fn ask(script: &str, source: LayerSource) -> Layers {
    let device = Some("cuda:0".parse().unwrap());
    layers(&trace(script), &LayerQuestion { device, source, events: None }).unwrap()
}

fn marked(script: &str) -> Layers {
    ask(script, LayerSource::Phases("layer ".to_owned()))
}

fn layer<'a>(found: &'a Layers, name: &str) -> &'a Layer {
    found.layers.iter().find(|layer| layer.name == name).unwrap()
}

fn mib(count: u64) -> Bytes {
    Bytes(count << 20)
}

#[test]
fn a_layer_has_what_happens_in_it_and_in_those_inside() {
    let found = marked(
        "initial w cuda:0 8MiB
         phase begin layer a
         alloc x cuda:0 1MiB
         phase begin layer a.b
         alloc y cuda:0 2MiB
         free y
         phase end
         phase end
         alloc z cuda:0 64MiB
         free x",
    );
    let (outer, inner) = (layer(&found, "a"), layer(&found, "a.b"));
    assert_eq!((outer.allocations, outer.frees), (2, 1));
    assert_eq!((inner.allocations, inner.frees), (1, 1));
    // The level of the device while it ran, without later events.
    assert_eq!((outer.peak_allocated, inner.peak_allocated), (mib(11), mib(11)));
    assert_eq!(
        (found.peak_allocated, found.at_start, found.allocated_bytes),
        (mib(73), mib(8), mib(67))
    );
    // Every line of a script takes a millisecond.
    assert!((outer.seconds - 0.006).abs() < 1e-9 && (inner.seconds - 0.003).abs() < 1e-9);
}

#[test]
fn runs_of_a_layer_are_added_up() {
    let once = "phase begin layer a\nalloc x cuda:0 1MiB\nfree x\nphase end\n";
    let found = marked(&once.repeat(3));
    let only = layer(&found, "a");
    assert_eq!((only.allocations, only.frees), (3, 3));
}

#[test]
fn a_layer_that_calls_itself_counts_once() {
    let found = marked(
        "phase begin layer a
         phase begin layer a
         alloc x cuda:0 1MiB
         phase end
         phase end",
    );
    let only = layer(&found, "a");
    assert_eq!(only.allocations, 1);
    assert!((only.seconds - 0.004).abs() < 1e-9, "{}", only.seconds);
}

#[test]
fn other_phases_are_no_layers() {
    let found = marked(
        "phase begin eval
         phase begin layer a
         alloc x cuda:0 1MiB
         phase end
         phase end
         alloc y cuda:0 1MiB",
    );
    let names: Vec<&str> = found.layers.iter().map(|layer| layer.name.as_str()).collect();
    assert_eq!(names, ["a"]);
    assert_eq!(found.layers[0].allocations, 1);
}

#[test]
fn backward_allocations_belong_to_the_layers_of_their_forward_line() {
    let found = marked(
        "phase begin layer a
         phase begin layer a.b
         alloc x cuda:0 1MiB at m.py:1 in a.b
         phase end
         phase end
         backward alloc g cuda:0 4MiB at m.py:1 in a.b
         backward alloc h cuda:0 2MiB at m.py:9 in c
         free g",
    );
    let inner = layer(&found, "a.b");
    assert_eq!(inner.allocations, 2);
    // Also while it does not run: its backward pass raised the level.
    assert_eq!(inner.peak_allocated, mib(5));
    assert_eq!(found.layers.len(), 2);
    let named: Vec<Option<u32>> = found
        .events
        .iter()
        .filter(|event| event.kind == LayerEventKind::Alloc)
        .map(|event| event.layer)
        .collect();
    assert_eq!(named, [Some(1), Some(1), None]);
}

#[test]
fn initial_blocks_with_labels_are_no_events() {
    let found = marked(
        "initial w cuda:0 8MiB
         label w parameter w
         initial v cuda:0 4MiB
         label v parameter v
         phase begin layer a
         alloc x cuda:0 1MiB
         phase end",
    );
    let kinds: Vec<String> = found.events.iter().map(|event| format!("{:?}", event.kind)).collect();
    assert_eq!(kinds, ["Snapshot", "LayerEnter", "Alloc", "LayerExit", "Snapshot"]);
    assert_eq!((found.at_start, found.allocated_bytes), (mib(12), mib(1)));
}

#[test]
fn the_sizes_of_events_add_up_to_the_level() {
    let script = "alloc x cuda:0 1024B asking 600B\nalloc y cuda:0 512B\nfree x";
    let found = ask(script, LayerSource::Modules);
    let mut level = 0;
    for event in &found.events {
        match event.kind {
            LayerEventKind::Alloc => level += event.bytes.0,
            LayerEventKind::Free => level -= event.bytes.0,
            LayerEventKind::Snapshot | LayerEventKind::LayerEnter | LayerEventKind::LayerExit => {}
        }
        assert_eq!(event.allocated, Bytes(level));
    }
    assert_eq!(level, 512);
}

#[test]
fn without_marks_the_modules_on_the_stacks_are_the_layers() {
    let found = ask(
        "alloc x cuda:0 1MiB at m.py:1 in a.b
         alloc y cuda:0 2MiB at m.py:2 in c
         backward alloc g cuda:0 4MiB at m.py:1 in a.b
         free y",
        LayerSource::Modules,
    );
    let inner = layer(&found, "a.b");
    assert_eq!(inner.allocations, 2);
    // From its first allocation until the thread allocates elsewhere.
    assert!((layer(&found, "c").seconds - 0.001).abs() < 1e-9);
}

#[test]
fn a_limit_keeps_the_latest_events() {
    let script = "alloc x cuda:0 1MiB at m.py:1 in a\nfree x\nalloc y cuda:0 2MiB at m.py:1 in a";
    let question = LayerQuestion { events: Some(3), ..LayerQuestion::default() };
    let found = layers(&trace(script), &question).unwrap();
    let kinds: Vec<String> = found.events.iter().map(|event| format!("{:?}", event.kind)).collect();
    assert_eq!(kinds, ["Alloc", "LayerExit", "Snapshot"]);
    assert_eq!(found.layers[0].allocations, 2);
}
