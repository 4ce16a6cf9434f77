//! The file that lets clients in, and goes with the process that wrote it.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use joiner_apiserver::credentials::write_private;

/// Its name unless the user gives another.
pub const USUAL: &str = "joiner.kubeconfig";
/// How long a server on this machine may take to be found.
const PATIENCE: Duration = Duration::from_millis(500);

/// A file that was written.
#[derive(Debug)]
pub struct Kubeconfig {
    path: PathBuf,
    text: String,
    /// Address and token are those of the next start too.
    kept: bool,
}

impl Kubeconfig {
    /// Refuses to take the usual name from a cluster that runs. Ask before anything listens.
    pub fn check(path: &Path) -> anyhow::Result<()> {
        if path != Path::new(USUAL) {
            return Ok(());
        }
        let address = std::fs::read_to_string(path).ok().and_then(|text| address_in(&text));
        if let Some(address) = address
            && TcpStream::connect_timeout(&address, PATIENCE).is_ok()
        {
            anyhow::bail!(
                "`{USUAL}` belongs to a cluster that runs (https://{address}): end that one, or name another file with --kubeconfig"
            );
        }
        Ok(())
    }

    /// Writes the file; it stays at the end if address and token are kept.
    pub fn write(path: &Path, kept: bool, text: String) -> anyhow::Result<Self> {
        let path = std::path::absolute(path)?;
        write_private(&path, &text).with_context(|| format!("cannot write `{}`", path.display()))?;
        Ok(Self { path, text, kept })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        // Somebody else may have written there since.
        if !self.kept && std::fs::read_to_string(&self.path).is_ok_and(|text| text == self.text) {
            // What cannot be removed is a file that leads nowhere.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The address of the server in a kubeconfig of ours.
fn address_in(text: &str) -> Option<SocketAddr> {
    let rest = text.split("https://").nth(1)?;
    rest.split(['"', '\'', '\n', ' ', ',', '}']).next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found() {
        let expected = "127.0.0.1:6443".parse().ok();
        for text in [
            "clusters:\n- cluster:\n    server: https://127.0.0.1:6443\n    x: y\n",
            "    server: \"https://127.0.0.1:6443\"\n",
            r#"{"cluster":{"server":"https://127.0.0.1:6443","x":1}}"#,
        ] {
            assert_eq!(address_in(text), expected, "{text}");
        }
        assert_eq!(address_in("server: https://cluster.example.com"), None);
        assert_eq!(address_in(""), None);
    }
}
