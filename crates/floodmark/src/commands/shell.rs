//! `floodmark completions` and `floodmark man`: completions and man pages.

use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::generate;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::text::command_output::CommandOutput;
use crate::text::failure::{Context, Result};

/// The completion script for a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> CommandOutput {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "floodmark", &mut script);
    CommandOutput::exactly(String::from_utf8_lossy(&script).into_owned())
}

/// Writes a man page for the program and one for each command.
pub(crate) fn man(args: &ManArgs) -> Result<CommandOutput> {
    let folder = &args.folder;
    let pages = pages()?;
    fs::create_dir_all(folder)
        .with_context(|| format!("Failed to make the folder `{}`", folder.display()))?;
    for (name, page) in &pages {
        let path = folder.join(name);
        fs::write(&path, page).with_context(|| format!("Failed to write `{}`", path.display()))?;
    }
    Ok(format!("Wrote {} man pages to `{}`\n", pages.len(), folder.display()).into())
}

/// The file name and the text of each man page.
fn pages() -> Result<Vec<(String, Vec<u8>)>> {
    let mut program = Cli::command();
    program.build();
    let commands = program.get_subcommands().filter(|command| command.get_name() != "help");
    let all: Vec<Command> = std::iter::once(&program).chain(commands).cloned().collect();
    all.into_iter().map(page).collect()
}

fn page(command: Command) -> Result<(String, Vec<u8>)> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let mut text = Vec::new();
    let version = env!("CARGO_PKG_VERSION");
    let man = clap_mangen::Man::new(command)
        .title(name.to_uppercase())
        .source(format!("floodmark {version}"))
        .manual("floodmark");
    man.render(&mut text).with_context(|| format!("Failed to write the page of `{name}`"))?;
    Ok((Path::new(&name).with_extension("1").to_string_lossy().into_owned(), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let names: Vec<String> = pages().unwrap().into_iter().map(|(name, _)| name).collect();
        let commands = Cli::command().get_subcommands().count();
        assert_eq!(names.len(), commands + 1, "{names:?}");
        for name in ["floodmark.1", "floodmark-report.1", "floodmark-doctor.1"] {
            assert!(names.iter().any(|one| one == name), "{names:?}");
        }
    }
}
