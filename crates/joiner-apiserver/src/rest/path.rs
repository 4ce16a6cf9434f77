//! What a path names.

use percent_encoding::percent_decode_str;

/// The meaning of a request path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/`
    Root,
    /// `/healthz` and its kin, with anything below.
    Health,
    /// `/version`
    Version,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1` or `/apis/GROUP/VERSION`
    Resources {
        /// The group.
        group: String,
        /// The version.
        version: String,
    },
    /// `/openapi/v2`
    OldOpenApi,
    /// `/openapi/v3`
    OpenApi,
    /// `/openapi/v3/apis/GROUP/VERSION`
    OpenApiDocument {
        /// The group.
        group: String,
        /// The version.
        version: String,
    },
    /// A collection, an object or a subresource.
    Resource(Place),
    /// Nothing known.
    Unknown,
}

/// A collection, an object or a subresource of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The namespace, if the path has one.
    pub namespace: Option<String>,
    /// The plural name of the resource.
    pub plural: String,
    /// The object.
    pub name: Option<String>,
    /// The subresource; further segments stay in it.
    pub subresource: Option<String>,
    /// The old form of a watch, `/api/v1/watch/…`.
    pub watch: bool,
}

/// Reads a path.
pub fn route(path: &str) -> Route {
    let decoded: Vec<String> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned())
        .collect();
    let segments: Vec<&str> = decoded.iter().map(String::as_str).collect();
    match segments.as_slice() {
        [] => Route::Root,
        ["healthz" | "livez" | "readyz", ..] => Route::Health,
        ["version"] => Route::Version,
        ["api"] => Route::CoreVersions,
        ["apis"] => Route::Groups,
        ["apis", group] => Route::Group((*group).to_owned()),
        ["openapi", "v2"] => Route::OldOpenApi,
        ["openapi", "v3"] => Route::OpenApi,
        ["openapi", "v3", "api", version] => {
            Route::OpenApiDocument { group: String::new(), version: (*version).to_owned() }
        }
        ["openapi", "v3", "apis", group, version] => {
            Route::OpenApiDocument { group: (*group).to_owned(), version: (*version).to_owned() }
        }
        ["api", version] => Route::Resources { group: String::new(), version: (*version).to_owned() },
        ["apis", group, version] => {
            Route::Resources { group: (*group).to_owned(), version: (*version).to_owned() }
        }
        ["api", version, rest @ ..] => place("", version, rest),
        ["apis", group, version, rest @ ..] => place(group, version, rest),
        _ => Route::Unknown,
    }
}

fn place(group: &str, version: &str, segments: &[&str]) -> Route {
    let mut place = Place { group: group.to_owned(), version: version.to_owned(), ..Place::default() };
    let mut segments = segments;
    if let ["watch", rest @ ..] = segments {
        place.watch = true;
        segments = rest;
    }
    // `/namespaces/a/status` is a subresource of a namespace, `/namespaces/a/pods` a collection in one.
    let (plural, rest) = match segments {
        ["namespaces", _, "status" | "finalize"] => ("namespaces", &segments[1..]),
        ["namespaces", namespace, plural, rest @ ..] => {
            place.namespace = Some((*namespace).to_owned());
            (*plural, rest)
        }
        [plural, rest @ ..] => (*plural, rest),
        [] => return Route::Unknown,
    };
    place.plural = plural.to_owned();
    place.name = rest.first().map(|name| (*name).to_owned());
    if rest.len() > 1 {
        place.subresource = Some(rest[1..].join("/"));
    }
    Route::Resource(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str) -> Place {
        match route(path) {
            Route::Resource(place) => place,
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn paths_name_places() {
        let pod = named("/api/v1/namespaces/a/pods/p/binding");
        assert_eq!((pod.namespace.as_deref(), pod.name.as_deref()), (Some("a"), Some("p")));
        assert_eq!(pod.subresource.as_deref(), Some("binding"));
        let namespace = named("/api/v1/namespaces/a");
        assert_eq!((namespace.plural.as_str(), namespace.name.as_deref()), ("namespaces", Some("a")));
        assert_eq!(named("/api/v1/namespaces/a/status").subresource.as_deref(), Some("status"));
        assert_eq!(named("/api/v1/namespaces/a/status").namespace, None);
        let deployments = named("/apis/apps/v1/deployments");
        assert_eq!((deployments.group.as_str(), deployments.name), ("apps", None));
        assert!(named("/api/v1/watch/pods").watch);
        assert_eq!(named("/api/v1/nodes/a%2Fb").name.as_deref(), Some("a/b"));
        assert_eq!(route("/apis/apps"), Route::Group("apps".to_owned()));
        assert_eq!(route("/nope"), Route::Unknown);
    }
}
