//! Requests to resources: paths, verbs, options and their meaning.
//!
//! [`handle`] finds what a request is about and calls the module of its verb. A request that writes opens the store once and
//! holds it to the end, so there is nothing to retry: what it read is what it replaces.

mod accept;
mod body;
mod bootstrap;
mod create;
mod definitions;
mod delete;
mod events;
mod go_json;
mod leases;
mod list_options;
mod metadata;
mod options;
mod patching;
mod path;
mod pods;
mod read;
mod render;
mod restore;
mod reviews;
mod scale;
mod status;
mod stream;
mod typed;
mod update;
mod usage;
mod users;
mod written_list;

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::clock::{Chance, Clock, format_time};
use crate::resources::{Resource, Resources};
use crate::store::{Session, Store, Stored};
use crate::{discovery, openapi};

pub use accept::{Accepted, Form};
pub(crate) use body::checked;
pub(crate) use bootstrap::{bootstrap, create_directly, ensure_directly, learn_definitions};
pub(crate) use create::create_new;
pub use definitions::CustomKind;
pub use delete::{DeleteOptions, Propagation};
pub(crate) use delete::{Outcome, delete_object, delete_target};
pub(crate) use go_json::complaint as complaint_about_json;
pub(crate) use metadata::{child_mut, labels_of, meta, meta_mut, meta_text};
pub use options::{FieldValidation, Query, WriteOptions};
pub use patching::Language as PatchLanguage;
pub(crate) use patching::patch_object;
pub use path::{Place, Route};
pub(crate) use pods::{bind_pod, evict_pod};
pub(crate) use render::{metadata_only, shown};
pub use restore::Restored;
pub(crate) use restore::{prepare as prepare_restored, put as put_restored};
pub use status::{Cause, Failure};
pub(crate) use update::{UpdateContext, replace, update_object};
pub(crate) use users::User;
pub use written_list::WrittenList;

/// What the server is made of: the objects, and its sources of time and chance.
pub struct Core {
    /// The objects.
    pub store: Store,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Uids and generated names.
    pub chance: Chance,
    /// The resources that definitions have added.
    pub custom: Mutex<Arc<Resources>>,
    /// Whether dependents of deleted objects are deleted, and contents of deleted namespaces.
    pub collect_garbage: bool,
    /// Whether there is usage of pods and nodes to ask for.
    pub usage: bool,
    /// Whether nodes have leases that nobody wrote.
    pub leases: bool,
    /// Tokens of service accounts.
    pub(crate) tokens: crate::tokens::Tokens,
}

impl Core {
    /// The present moment as Kubernetes writes it.
    pub fn now(&self) -> String {
        format_time(self.clock.now())
    }

    /// Finds a resource, built-in or defined.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        if let Some(resource) = Resources::builtin().find(group, version, plural) {
            return Some(resource.clone());
        }
        if self.usage
            && let Some(resource) = usage::resources().find(group, version, plural)
        {
            return Some(resource.clone());
        }
        self.custom.lock().find(group, version, plural).cloned()
    }

    /// Runs `work` with all resources, the built-in ones first.
    pub fn with_resources<T>(&self, work: impl FnOnce(&[&Resources]) -> T) -> T {
        let custom = self.custom.lock().clone();
        if self.usage {
            work(&[Resources::builtin(), usage::resources(), &custom])
        } else {
            work(&[Resources::builtin(), &custom])
        }
    }

    fn knows_version(&self, group: &str, version: &str) -> bool {
        self.with_resources(|all| all.iter().any(|resources| resources.of(group, version).is_some()))
    }

    /// Opens the store for a change.
    ///
    /// # Errors
    /// The disk on which it is kept takes nothing.
    pub(crate) fn open_to_change(&self) -> Result<Session<'_>, Failure> {
        self.store.open_to_change().map_err(|reason| Failure::not_saved(&reason))
    }

    /// Work that other controllers of a cluster would do, where it belongs to the store: see [`crate::gc`].
    pub(crate) fn settle(&self, session: &mut Session<'_>) {
        if self.collect_garbage {
            crate::gc::collect(self, session);
        }
    }
}

/// A request, read as far as HTTP goes.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The method.
    pub method: Method,
    /// The path, still encoded.
    pub path: String,
    /// The query.
    pub query: Query,
    /// The header `Accept`.
    pub accept: Option<String>,
    /// The header `Content-Type` without its parameters.
    pub content_type: Option<String>,
    /// The header `User-Agent`.
    pub user_agent: String,
    /// The header `Authorization`.
    pub authorization: Option<String>,
    /// The headers `Impersonate-…`: the rest of the name in small letters, and the value.
    pub pretence: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

/// What is sent back.
pub enum Payload {
    /// A document.
    Document(Value),
    /// A document that is written already, as JSON.
    Written(Bytes),
    /// A list of written objects, put together as it is sent.
    List(WrittenList),
    /// Plain text.
    Text(String),
    /// Nothing.
    Nothing,
    /// A stream of watch events.
    Stream(stream::EventStream),
}

/// The answer to a request.
pub struct Answer {
    /// The HTTP status.
    pub code: u16,
    /// The content.
    pub payload: Payload,
    /// A content type other than that of the payload.
    pub content_type: Option<&'static str>,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
    /// Whether the client asked for YAML.
    pub yaml: bool,
}

impl Answer {
    fn new(code: u16, payload: Payload) -> Self {
        Self { code, payload, content_type: None, warnings: Vec::new(), yaml: false }
    }

    fn document(document: Value) -> Self {
        Self::new(200, Payload::Document(document))
    }

    fn text(text: impl Into<String>) -> Self {
        Self::new(200, Payload::Text(text.into()))
    }
}

/// A request to a resource, with everything the verbs need to know.
pub(crate) struct Call<'a> {
    pub core: &'a Core,
    pub incoming: &'a Incoming,
    pub resource: Arc<Resource>,
    /// Empty outside namespaces.
    pub namespace: String,
    pub everywhere: bool,
    pub name: String,
    pub subresource: Option<String>,
    pub accepted: Accepted,
}

impl Call<'_> {
    pub(crate) fn query(&self) -> &Query {
        &self.incoming.query
    }

    pub(crate) fn write_options(&self, kind: &str) -> Result<WriteOptions, Failure> {
        let applies = self.incoming.content_type.as_deref() == Some(patching::APPLY);
        WriteOptions::read(self.query(), kind, &self.incoming.user_agent, applies)
    }

    /// The object of the path.
    pub(crate) fn stored(&self, session: &Session<'_>) -> Result<Stored, Failure> {
        self.target().stored(session)
    }

    /// What a write is about.
    pub(crate) fn target(&self) -> Target<'_> {
        Target {
            core: self.core,
            resource: &self.resource,
            namespace: &self.namespace,
            name: &self.name,
            subresource: self.subresource.as_deref().unwrap_or_default(),
        }
    }
}

/// The object that a write is about.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub core: &'a Core,
    pub resource: &'a Arc<Resource>,
    /// Empty outside namespaces.
    pub namespace: &'a str,
    pub name: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
}

impl Target<'_> {
    /// The object as it is.
    pub(crate) fn stored(&self, session: &Session<'_>) -> Result<Stored, Failure> {
        session
            .get(&self.resource.stored_as, self.namespace, self.name)
            .ok_or_else(|| Failure::not_found(self.resource, self.name))
    }
}

/// Answers a request.
///
/// # Errors
/// The refusal, to be sent as a `Status`.
pub async fn handle(core: &Core, incoming: &Incoming) -> Result<Answer, Failure> {
    users::pretended(incoming)?;
    let place = match path::route(&incoming.path) {
        Route::Resource(place) => place,
        other => return about_server(core, incoming, other),
    };
    if !core.knows_version(&place.group, &place.version) {
        return Err(Failure::unknown_path());
    }
    let resource =
        core.find(&place.group, &place.version, &place.plural).ok_or_else(Failure::unknown_resource)?;
    if place.namespace.is_some() && !resource.namespaced {
        return Err(Failure::unknown_resource());
    }
    let everywhere = resource.namespaced && place.namespace.is_none();
    if everywhere && place.name.is_some() {
        return Err(Failure::unknown_resource());
    }
    let accepted = accept::negotiate(incoming.accept.as_deref())?;
    if matches!(accepted.form, Form::Table(_)) {
        crate::table::Include::check(incoming.query.get("includeObject")).map_err(Failure::bad_request)?;
    }
    let mut call = Call {
        core,
        incoming,
        resource,
        everywhere,
        namespace: place.namespace.unwrap_or_default(),
        name: place.name.clone().unwrap_or_default(),
        subresource: place.subresource,
        accepted,
    };
    if call.name.is_empty() && place.name.is_some() {
        return Err(Failure::unknown_resource());
    }
    let mut answer = if usage::is_usage(&call.resource) && call.subresource.is_none() {
        usage::answer(&call)?
    } else if call.subresource.is_some() {
        subresource(&mut call)?
    } else if place.name.is_some() && !place.watch {
        object(&call).await?
    } else {
        collection(&call, place.watch).await?
    };
    answer.yaml = call.accepted.yaml;
    if let Some(warning) = call.resource.custom.as_ref().and_then(|custom| custom.deprecation.clone()) {
        answer.warnings.insert(0, warning);
    }
    Ok(answer)
}

fn allowed(call: &Call<'_>, verb: &str) -> Result<(), Failure> {
    if call.resource.verbs.iter().any(|known| known == verb) {
        Ok(())
    } else {
        Err(Failure::method_not_allowed())
    }
}

async fn collection(call: &Call<'_>, watch: bool) -> Result<Answer, Failure> {
    match call.incoming.method {
        Method::GET => {
            allowed(call, "list")?;
            if watch || call.query().is_set("watch") {
                allowed(call, "watch")?;
                return stream::watch(call);
            }
            read::list(call).await
        }
        _ if watch => Err(Failure::method_not_allowed()),
        Method::POST if !call.everywhere => {
            allowed(call, "create")?;
            if let Some(answer) = reviews::answer(call)? {
                return Ok(answer);
            }
            if call.resource.is("", "bindings") {
                return pods::bind_by_name(call);
            }
            create::create(call)
        }
        Method::DELETE if !call.everywhere => {
            allowed(call, "deletecollection")?;
            delete::delete_collection(call)
        }
        _ => Err(Failure::method_not_allowed()),
    }
}

async fn object(call: &Call<'_>) -> Result<Answer, Failure> {
    match call.incoming.method {
        Method::GET => {
            allowed(call, "get")?;
            read::get(call).await
        }
        Method::PUT => {
            allowed(call, "update")?;
            update::put(call)
        }
        Method::PATCH => {
            allowed(call, "patch")?;
            patching::patch(call)
        }
        Method::DELETE => {
            allowed(call, "delete")?;
            delete::delete(call)
        }
        _ => Err(Failure::method_not_allowed()),
    }
}

fn subresource(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let name = call.subresource.clone().unwrap_or_default();
    let known = call.resource.subresource(&name).ok_or_else(|| match &call.resource.custom {
        Some(_) => Failure::not_found(&call.resource, &call.name),
        None => Failure::unknown_resource(),
    })?;
    let verb = match call.incoming.method {
        Method::GET => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::POST => "create",
        Method::DELETE => "delete",
        _ => return Err(Failure::method_not_allowed()),
    };
    if !known.verbs.iter().any(|known| known == verb) {
        return Err(Failure::method_not_allowed());
    }
    match (name.as_str(), verb) {
        ("scale", _) => scale::answer(call, verb),
        ("binding", _) => pods::bind(call),
        ("eviction", _) => pods::evict(call),
        ("token", _) => reviews::token(call),
        ("log", _) => pods::log(call),
        ("status" | "ephemeralcontainers" | "resize" | "finalize" | "approval", "get") => {
            let object = call.stored(&call.core.store.open())?;
            Ok(render::object(call, 200, &object))
        }
        ("status" | "resize" | "finalize" | "ephemeralcontainers", "update") => update::put(call),
        ("status" | "resize" | "finalize" | "ephemeralcontainers", "patch") => patching::patch(call),
        _ => Err(Failure::new(
            501,
            "NotImplemented",
            format!("`{}/{name}` is not simulated", call.resource.plural),
        )),
    }
}

/// Paths that are about the server and not about an object.
fn about_server(core: &Core, incoming: &Incoming, route: Route) -> Result<Answer, Failure> {
    if incoming.method != Method::GET {
        return Err(match route {
            Route::Unknown => Failure::unknown_path(),
            _ => Failure::method_not_allowed(),
        });
    }
    let one_document = || -> Result<bool, Failure> {
        Ok(accept::negotiate(incoming.accept.as_deref())?.form == Form::Discovery)
    };
    const ONE_DOCUMENT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let aggregated =
        |document: Value| Answer { content_type: Some(ONE_DOCUMENT), ..Answer::document(document) };
    match route {
        Route::Root => Ok(Answer::document(core.with_resources(root))),
        Route::Health => Ok(Answer::text(health(incoming))),
        Route::Version => Ok(Answer::document(version())),
        Route::CoreVersions if one_document()? => {
            Ok(aggregated(core.with_resources(|all| discovery::aggregated(all, true))))
        }
        Route::Groups if one_document()? => {
            Ok(aggregated(core.with_resources(|all| discovery::aggregated(all, false))))
        }
        Route::CoreVersions => Ok(Answer::document(discovery::core_versions("localhost"))),
        Route::Groups => Ok(Answer::document(core.with_resources(discovery::groups))),
        Route::Group(name) => core
            .with_resources(|all| discovery::group(all, &name))
            .map(Answer::document)
            .ok_or_else(Failure::unknown_path),
        Route::Resources { group, version } => core
            .with_resources(|all| discovery::resources(all, &group, &version))
            .map(Answer::document)
            .ok_or_else(Failure::unknown_path),
        Route::OldOpenApi => Ok(match incoming.accept.as_deref() {
            Some(accept) if accept.contains(openapi::OLD_MEDIA_TYPE) => Answer {
                content_type: Some(openapi::OLD_CONTENT_TYPE),
                ..Answer::new(200, Payload::Written(openapi::old_document().into()))
            },
            _ => Answer::document(openapi::old_document_as_json()),
        }),
        Route::OpenApi => {
            let index = core.with_resources(openapi::index).to_string();
            Ok(Answer::text(index))
        }
        Route::OpenApiDocument { group, version } => core
            .with_resources(|all| openapi::document(all, &group, &version))
            .map(Answer::document)
            .ok_or_else(Failure::unknown_path),
        Route::Resource(_) | Route::Unknown => Err(Failure::unknown_path()),
    }
}

/// `/readyz` and its kin: there is one check, that somebody answers.
fn health(incoming: &Incoming) -> String {
    if !incoming.query.is_set("verbose") {
        return "ok".to_owned();
    }
    let (mut text, mut unknown) = ("[+]ping ok\n".to_owned(), Vec::new());
    for excluded in incoming.query.all("exclude") {
        match excluded {
            "ping" => text = "[+]ping excluded: ok\n".to_owned(),
            other => unknown.push(format!("{other:?}")),
        }
    }
    if !unknown.is_empty() {
        let unknown = unknown.join(",");
        text += &format!("warn: some health checks cannot be excluded: no matches for {unknown}\n");
    }
    let name = incoming.path.split('/').find(|segment| !segment.is_empty()).unwrap_or_default();
    text + &format!("{name} check passed\n")
}

fn root(all: &[&Resources]) -> Value {
    let mut paths = vec![
        "/.well-known/openid-configuration".to_owned(),
        "/api".to_owned(),
        "/api/v1".to_owned(),
        "/apis".to_owned(),
    ];
    for group in all.iter().flat_map(|resources| resources.groups()).filter(|group| !group.name.is_empty()) {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.versions.iter().map(|version| format!("/apis/{}/{version}", group.name)));
    }
    paths.extend(["/healthz", "/livez", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    json!({"paths": paths})
}

fn version() -> Value {
    let mut numbers = crate::VERSION.trim_start_matches('v').split('.');
    json!({
        "major": numbers.next(),
        "minor": numbers.next(),
        "gitVersion": crate::VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}
