//! Which files to read.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::report::InputError;

/// One input: a file or standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// `-`.
    Stdin,
    /// A file.
    File(PathBuf),
}

impl Source {
    /// What messages call it.
    pub fn name(&self) -> String {
        match self {
            Self::Stdin => "standard input".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }

    /// How many bytes it seems to have; 0 if that can't be told.
    pub fn size_hint(&self) -> u64 {
        match self {
            Self::Stdin => 0,
            Self::File(path) => std::fs::metadata(path).map_or(0, |metadata| metadata.len()),
        }
    }

    /// Opens it.
    pub fn open(&self) -> Result<Box<dyn Read>, InputError> {
        self.open_for("-f")
    }

    /// Opens it; `flag` is what the user named it with.
    pub fn open_for(&self, flag: &str) -> Result<Box<dyn Read>, InputError> {
        match self {
            Self::Stdin => Ok(Box::new(io::stdin())),
            Self::File(path) => match File::open(path) {
                Ok(file) => Ok(Box::new(file)),
                Err(error) => Err(unreadable(path, flag, &error)),
            },
        }
    }
}

/// Files behind `-f` arguments: folders give their `.yaml`, `.yml` and `.json` files by name, not those of folders inside.
pub fn sources(arguments: &[PathBuf]) -> Result<Vec<Source>, InputError> {
    sources_of("-f", arguments)
}

/// The same behind another flag.
pub fn sources_of(flag: &str, arguments: &[PathBuf]) -> Result<Vec<Source>, InputError> {
    let mut out = Vec::new();
    for path in arguments {
        if path.as_os_str() == "-" {
            if out.contains(&Source::Stdin) {
                let message = "standard input can be read only once";
                return Err(InputError::of_file("-", message, format!("give `{flag} -` once")));
            }
            out.push(Source::Stdin);
        } else if path.is_dir() {
            let files = manifests_in(path).map_err(|error| unreadable(path, flag, &error))?;
            if files.is_empty() {
                let message = "the folder holds no .yaml, .yml or .json file";
                let remedy = "name a folder with manifests (folders inside it are not searched)";
                return Err(InputError::of_file(&path.display().to_string(), message, remedy));
            }
            out.extend(files.into_iter().map(Source::File));
        } else {
            if let Err(error) = std::fs::metadata(path) {
                return Err(unreadable(path, flag, &error));
            }
            out.push(Source::File(path.clone()));
        }
    }
    Ok(out)
}

fn manifests_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let wanted = path
            .extension()
            .is_some_and(|e| ["yaml", "yml", "json"].iter().any(|w| e.eq_ignore_ascii_case(w)));
        if wanted && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn unreadable(path: &Path, flag: &str, error: &io::Error) -> InputError {
    let check_path =
        if flag.is_empty() { "check the path".to_owned() } else { format!("check the path after {flag}") };
    let (message, remedy) = match error.kind() {
        io::ErrorKind::NotFound if ["-f", "--from"].contains(&flag) => {
            ("no such file or folder".to_owned(), check_path)
        }
        io::ErrorKind::NotFound => ("no such file".to_owned(), check_path),
        io::ErrorKind::PermissionDenied => {
            ("not allowed to read it".to_owned(), "check its permissions".to_owned())
        }
        _ => (error.to_string(), check_path),
    };
    InputError::of_file(&path.display().to_string(), message, remedy)
}
