//! The list of `--instance-types-file-path`, read again whenever it changes, and the files beside it that node classes may name.
//!
//! The folder is watched, not the file: editors and mounted ConfigMaps put another file in its place. A list that cannot be used changes nothing and is told once; the one before stays.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use joiner_provider_kwok::Catalogue;
use joiner_provider_kwok::live::{KwokProvider, ReadTypes};
use notify::{RecursiveMode, Watcher};
use tokio::sync::Notify;

use crate::commands::instance_types::text_of;
use crate::load::Source;

/// A file that is being written changes several times in a row.
const SETTLE: Duration = Duration::from_millis(200);
const FLAG: &str = "--instance-types-file-path";

/// Reads files of the folder in which the list is, by their names alone.
pub fn reader(list: &Path) -> ReadTypes {
    let folder = folder_of(list);
    Arc::new(move |name| {
        if name.contains(['/', '\\']) || name == ".." || name == "." {
            return Err(format!("`{name}` is not the name of a file in the folder of {FLAG}"));
        }
        text(&folder.join(name)).map_err(|error| format!("`{name}`: {error}"))
    })
}

/// Hands every change of the list to the provider, for as long as it is polled.
pub async fn follow(list: PathBuf, provider: Arc<KwokProvider>) {
    let changes = Arc::new(Notify::new());
    let told = changes.clone();
    // What has changed is found by reading.
    let watcher = notify::recommended_watcher(move |_| told.notify_one());
    let folder = folder_of(&list);
    let watched = watcher.and_then(|mut watcher| {
        watcher.watch(&folder, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    let _watcher = match watched {
        Ok(watcher) => watcher,
        Err(error) => {
            tracing::warn!(folder = %folder.display(), %error, "the folder of instance types cannot be watched: changes are not seen");
            return;
        }
    };
    let mut last = text(&list);
    loop {
        changes.notified().await;
        tokio::time::sleep(SETTLE).await;
        provider.files_changed();
        let now = text(&list);
        if now == last {
            continue;
        }
        let name = list.display().to_string();
        let read = now
            .clone()
            .and_then(|text| Catalogue::from_text(&name, &text).map_err(|error| error.to_string()));
        last = now;
        match read {
            Ok(catalogue) => {
                tracing::info!(
                    file = name,
                    types = catalogue.types.len(),
                    "instance types are another list now"
                );
                provider.set_catalogue(catalogue);
            }
            Err(error) => {
                tracing::error!(
                    file = name,
                    error,
                    "instance types cannot be used: the last good list stays"
                );
            }
        }
    }
}

fn folder_of(list: &Path) -> PathBuf {
    match list.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn text(path: &Path) -> Result<String, String> {
    text_of(&Source::File(path.to_owned()), FLAG).map_err(|error| error.to_string())
}
