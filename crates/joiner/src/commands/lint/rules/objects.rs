//! What can be said of any object: twice there, out of use, refused by the API.

use std::collections::BTreeMap;

use joiner_manifest::Object;

use super::label_keys;
use crate::commands::lint::finding::Hit;
use crate::commands::lint::input::is_deprecated;
use crate::commands::lint::subject::Subject;

/// Objects of one kind and name.
pub fn duplicates(subject: &Subject) -> Vec<Hit> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut hits = Vec::new();
    for (object, loaded) in subject.objects.iter().enumerate() {
        if matches!(loaded.object, Object::Skipped(_)) || !loaded.is_named {
            continue;
        }
        // A missing namespace is `default`.
        let name = loaded.name.replacen(" default/", " ", 1);
        if seen.insert(name, object).is_some() {
            hits.push(Hit::new(
                object,
                "metadata.name",
                format!("{} was there before; the last one counts", loaded.name),
                "keep one of them",
            ));
        }
    }
    hits
}

/// Versions out of use.
pub fn deprecated(subject: &Subject) -> Vec<Hit> {
    let old = subject.objects.iter().enumerate().filter(|(_, loaded)| is_deprecated(&loaded.api_version));
    // A Provisioner may become two objects; it is one finding.
    let mut last: Option<&str> = None;
    old.filter(|(_, loaded)| {
        let first = last != Some(loaded.name.as_str());
        last = Some(&loaded.name);
        first
    })
    .map(|(object, loaded)| {
        Hit::new(
            object,
            "apiVersion",
            format!(
                "`{}` {} is out of use: clusters of today do not serve it",
                loaded.api_version, loaded.kind
            ),
            "write it as `joiner convert -f FILE` prints it",
        )
    })
    .collect()
}

/// Names out of use.
pub fn old_names(subject: &Subject) -> Vec<Hit> {
    let objects = subject.objects.iter().enumerate();
    objects
        .flat_map(|(object, loaded)| loaded.old_names.iter().map(move |note| (object, note)))
        .map(|(object, note)| {
            Hit::new(
                object,
                note.path.as_str(),
                note.message.as_str(),
                "write it as `joiner convert -f FILE` prints it",
            )
        })
        .collect()
}

/// Fields that the API refuses, as far as no other rule is about them.
pub fn invalid(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for (object, loaded) in subject.objects.iter().enumerate() {
        for problem in &loaded.problems {
            let is_typo = label_keys::meant(&problem.value).is_some();
            let is_taint_twice = problem.path.contains("aints[") && problem.path.ends_with(']');
            if is_typo || is_taint_twice {
                continue;
            }
            let message = format!("`{}`: {}", joiner_manifest::one_line(&problem.value), problem.message);
            hits.push(Hit::new(object, problem.path.as_str(), message, problem.remedy.as_str()));
        }
    }
    hits
}
