//! A program that ends when the process that started it ends, however that happens.
//!
//! The program runs under a small shell that waits on a pipe held open by this process. When the pipe closes, by a drop
//! or because the process was killed, the shell kills the program.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Runs `$@`, and kills it when standard input ends. Ends with the program otherwise.
const KEEPER: &str = r#"
exec 3<&0
"$@" </dev/null 3<&- &
program=$!
(read -r _ <&3; kill -9 "$program" 2>/dev/null) &
keeper=$!
wait "$program"
code=$?
kill "$keeper" 2>/dev/null
exit "$code"
"#;

/// A running program.
#[derive(Debug)]
pub struct Kept {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Kept {
    /// Starts it, its output going to a file.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(name: &str, program: &Path, arguments: &[String], log: &Path) -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", KEEPER, name]).arg(program).args(arguments).stdin(Stdio::piped());
        let child = logged(&mut command, log)?
            .spawn()
            .with_context(|| format!("cannot start `{}`", program.display()))?;
        Ok(Self { name: name.to_owned(), child, log: log.to_owned() })
    }

    /// An error that shows the end of the log, if it has ended.
    ///
    /// # Errors
    /// It has ended.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => {
                anyhow::bail!("`{}` ended with {status}:\n{}", self.name, end_of(&self.log))
            }
        }
    }

    /// The process id of the shell that keeps it.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The last lines it wrote.
    pub fn last_words(&self) -> String {
        end_of(&self.log)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The shell ends after the program it killed: nothing is left when this returns.
        let _ = self.child.wait();
    }
}

/// The command with its output going to a file.
pub(crate) fn logged<'a>(command: &'a mut Command, log: &Path) -> Result<&'a mut Command> {
    let file = File::create(log).with_context(|| format!("cannot write `{}`", log.display()))?;
    Ok(command.stdout(file.try_clone()?).stderr(file))
}

fn end_of(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    fn lives(pid: &str) -> bool {
        Command::new("kill").args(["-0", pid]).stderr(Stdio::null()).status().unwrap().success()
    }

    fn await_file(path: &Path) -> String {
        for _ in 0..200 {
            if let Some(text) = std::fs::read_to_string(path).ok().filter(|text| text.ends_with('\n')) {
                return text.trim().to_owned();
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("nothing in {}", path.display());
    }

    #[test]
    fn a_dropped_program_is_gone() {
        let folder = crate::plane::scratch("kept").unwrap();
        let pid = folder.join("pid");
        let script = format!("echo $$ > {}; exec sleep 600", pid.display());
        let arguments = ["-c".to_owned(), script];
        let mut kept = Kept::start("sleeper", Path::new("/bin/sh"), &arguments, &folder.join("log")).unwrap();
        let number = await_file(&pid);
        kept.check().unwrap();
        assert!(lives(&number));
        drop(kept);
        assert!(!lives(&number));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_program_that_ends_is_noticed() {
        let folder = crate::plane::scratch("ended").unwrap();
        let arguments = ["-c".to_owned(), "echo no such luck; exit 3".to_owned()];
        let mut kept = Kept::start("loser", Path::new("/bin/sh"), &arguments, &folder.join("log")).unwrap();
        let error = loop {
            match kept.check() {
                Ok(()) => std::thread::sleep(std::time::Duration::from_millis(10)),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("`loser` ended") && error.contains("no such luck"), "{error}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
