//! A program that ends when the process that started it ends, however that happens.
//!
//! The program runs under a small shell that waits on a pipe held open by this process. When the pipe closes, by a drop
//! or because the process was killed, the shell kills the program. The shell writes the program's own process id into a file beside
//! the log, so that tests can send it signals and ask what it used.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Runs all but the first argument, writes its process id into the file that the first one names, and kills it when standard input ends.
/// Ends with the program otherwise, with its exit code.
const KEEPER: &str = r#"
exec 3<&0
file=$1
shift
"$@" </dev/null 3<&- &
program=$!
echo "$program" >"$file"
(read -r _ <&3; kill -9 "$program" 2>/dev/null) &
keeper=$!
wait "$program"
code=$?
kill "$keeper" 2>/dev/null
exit "$code"
"#;

/// How long a shell may take to start its program.
const START: Duration = Duration::from_secs(20);

/// What a test may do to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// The end at once, without a last word.
    Kill,
    /// Stands still, and does not notice.
    Stop,
    /// Goes on where it stood still.
    Continue,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "-INT",
            Self::Kill => "-KILL",
            Self::Stop => "-STOP",
            Self::Continue => "-CONT",
        }
    }
}

/// A running program.
#[derive(Debug)]
pub struct Kept {
    name: String,
    child: Child,
    log: PathBuf,
    id_file: PathBuf,
}

impl Kept {
    /// Starts it, its output going to a file.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(name: &str, program: &Path, arguments: &[String], log: &Path) -> Result<Self> {
        Self::start_with(name, program, arguments, &[], log)
    }

    /// Starts it with variables of its environment set.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_with(
        name: &str,
        program: &Path,
        arguments: &[String],
        variables: &[(&str, String)],
        log: &Path,
    ) -> Result<Self> {
        let id_file = log.with_extension("pid");
        // Left by a program of the same name before.
        let _ = std::fs::remove_file(&id_file);
        let mut command = Command::new("sh");
        command.args(["-c", KEEPER, name]).arg(&id_file).arg(program).args(arguments);
        command.envs(variables.iter().map(|(key, value)| (key, value))).stdin(Stdio::piped());
        let child = logged(&mut command, log)?
            .spawn()
            .with_context(|| format!("cannot start `{}`", program.display()))?;
        Ok(Self { name: name.to_owned(), child, log: log.to_owned(), id_file })
    }

    /// The process id of the program itself.
    ///
    /// # Errors
    /// The shell has not started it.
    pub fn program_id(&self) -> Result<u32> {
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(&self.id_file).unwrap_or_default();
            if let Some(id) = text.strip_suffix('\n') {
                return id.parse().with_context(|| format!("`{id}` is no process id of `{}`", self.name));
            }
            anyhow::ensure!(begun.elapsed() < START, "`{}` has not been started:\n{text}", self.name);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends the program a signal.
    ///
    /// # Errors
    /// It does not run.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.program_id()?;
        let status = Command::new("kill").args([signal.name(), &id.to_string()]).status();
        let sent = status.context("cannot start `kill`")?.success();
        anyhow::ensure!(sent, "`{}` (process {id}) takes no signal", self.name);
        Ok(())
    }

    /// How it ended, if it does so in time.
    ///
    /// # Errors
    /// It still runs.
    pub fn await_end(&mut self, limit: Duration) -> Result<ExitStatus> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            let runs_on = begun.elapsed() > limit;
            anyhow::ensure!(!runs_on, "`{}` still runs after {} s", self.name, limit.as_secs());
            std::thread::sleep(Duration::from_millis(20));
        }
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
            std::thread::sleep(Duration::from_millis(20));
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
    fn signals_reach_the_program_itself() {
        let folder = crate::plane::scratch("signals").unwrap();
        let script = "trap 'echo asked; exit 7' INT; while :; do sleep 0.05; done";
        let arguments = ["-c".to_owned(), script.to_owned()];
        let log = folder.join("log");
        let variables = [("WHATEVER", "1".to_owned())];
        let mut kept =
            Kept::start_with("listener", Path::new("/bin/bash"), &arguments, &variables, &log).unwrap();
        let id = kept.program_id().unwrap().to_string();
        let state = || {
            let output = Command::new("ps").args(["-o", "stat=", "-p", &id]).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        kept.signal(Signal::Stop).unwrap();
        assert!(state().starts_with('T'), "{}", state());
        kept.signal(Signal::Continue).unwrap();
        assert!(!state().starts_with('T'), "{}", state());
        kept.check().unwrap();
        kept.signal(Signal::Kill).unwrap();
        assert_eq!(kept.await_end(Duration::from_secs(10)).unwrap().code(), Some(137));
        assert!(kept.signal(Signal::Interrupt).is_err(), "it has ended");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_program_that_ends_is_noticed() {
        let folder = crate::plane::scratch("ended").unwrap();
        let arguments = ["-c".to_owned(), "echo no such luck; exit 3".to_owned()];
        let mut kept = Kept::start("loser", Path::new("/bin/sh"), &arguments, &folder.join("log")).unwrap();
        let error = loop {
            match kept.check() {
                Ok(()) => std::thread::sleep(Duration::from_millis(10)),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("`loser` ended") && error.contains("no such luck"), "{error}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
