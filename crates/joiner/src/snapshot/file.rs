//! The order of objects in a file, and the file.

use std::io::{self, Write};
use std::path::Path;

use serde_json::Value;

use super::kinds::KindToRead;
use crate::field::text;

/// Forms of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Documents of YAML.
    Yaml,
    /// One list in JSON.
    Json,
}

impl Form {
    /// The form that a name asks for.
    pub fn of(path: &Path) -> Self {
        let json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        if json { Self::Json } else { Self::Yaml }
    }
}

/// Puts objects in the order of files: owners before what they own, then by namespace and name.
pub fn sort(objects: &mut [Value]) {
    objects.sort_by_cached_key(|object| {
        let text = |path: &str| text(object, path).to_owned();
        let api_version = text("/apiVersion");
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let kind = text("/kind");
        (KindToRead::rank(group, &kind), kind, text("/metadata/namespace"), text("/metadata/name"))
    });
}

/// Writes objects; `remarks` stand at the beginning where the form has comments.
pub fn write(out: &mut dyn Write, form: Form, remarks: &[String], objects: &[Value]) -> io::Result<()> {
    match form {
        Form::Yaml => {
            for remark in remarks {
                writeln!(out, "# {remark}")?;
            }
            for object in objects {
                let text = serde_saphyr::to_string(object).map_err(io::Error::other)?;
                out.write_all(b"---\n")?;
                out.write_all(text.as_bytes())?;
                if !text.ends_with('\n') {
                    out.write_all(b"\n")?;
                }
            }
        }
        Form::Json => {
            out.write_all(b"{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[")?;
            for (at, object) in objects.iter().enumerate() {
                out.write_all(if at == 0 { b"\n" } else { b",\n" })?;
                serde_json::to_writer(&mut *out, object)?;
            }
            out.write_all(b"\n]}\n")?;
        }
    }
    out.flush()
}

/// Writes a file that only its owner may read, whole or not at all: beside its place first, then moved there.
pub fn write_whole(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut name = path.file_name().map(std::ffi::OsStr::to_owned).unwrap_or_default();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let written = write_part(&part, write).and_then(|()| std::fs::rename(&part, path));
    if written.is_err() {
        // Nothing is to be left of it; that it may not have come so far is fine.
        let _ = std::fs::remove_file(&part);
    }
    written
}

fn write_part(part: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = io::BufWriter::with_capacity(1 << 16, options.open(part)?);
    write(&mut file)?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace, "name": name}})
    }

    #[test]
    fn files_have_one_order() {
        let mut objects = vec![
            object("v1", "Pod", "b", "a"),
            object("v1", "Pod", "a", "b"),
            object("apps/v1", "Deployment", "z", "a"),
            object("v1", "Node", "", "n"),
            object("v1", "Pod", "a", "a"),
            object("v1", "Namespace", "", "a"),
        ];
        sort(&mut objects);
        let names: Vec<String> = objects
            .iter()
            .map(|of| {
                format!(
                    "{} {}/{}",
                    of["kind"].as_str().unwrap(),
                    of["metadata"]["namespace"].as_str().unwrap(),
                    of["metadata"]["name"].as_str().unwrap()
                )
            })
            .collect();
        assert_eq!(names, ["Namespace /a", "Node /n", "Deployment z/a", "Pod a/a", "Pod a/b", "Pod b/a"]);
    }

    #[test]
    fn both_forms_are_read_back() {
        let objects = vec![object("v1", "Node", "", "n"), object("v1", "Pod", "a", "yes")];
        for form in [Form::Yaml, Form::Json] {
            let mut text = Vec::new();
            write(&mut text, form, &["a remark".to_owned()], &objects).unwrap();
            let mut read = Vec::new();
            crate::load::documents::cut(text.as_slice(), 0, "f", &mut |document| {
                read.push(crate::load::objects::read_value("f", &document)?);
                Ok(())
            })
            .unwrap();
            assert_eq!(read, objects);
        }
    }

    #[test]
    fn a_file_is_whole_or_not_there() {
        let folder = std::env::temp_dir().join(format!("joiner-snapshot-file-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.yaml");
        write_whole(&path, |out| out.write_all(b"one")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        let failed = write_whole(&path, |out| {
            out.write_all(b"two")?;
            Err(io::Error::other("the cluster is gone"))
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"one", "the old file is as it was");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
