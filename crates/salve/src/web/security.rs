//! The layer in front of every route: it refuses what only a hostile page or client would send.
//!
//! A server on a loopback address is reachable from every web page that the user opens. The
//! browser itself tells where a request comes from (`Host`, `Origin`, `Sec-Fetch-Site`); a page
//! elsewhere cannot lie about these, and a name that was rebound to this machine shows in `Host`.
//!
//! **Invariant:** no response allows another origin anything, and nothing is decided by a request
//! whose origin is another one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use salve_core::notify::PublicAddress;

use super::dev_page;
use super::problem::HttpProblem;

/// The largest body of a request.
pub(super) const BODY_BYTES: u64 = 64 * 1024;

/// The longest address of a request.
const URI_BYTES: usize = 4096;

/// How long a request may take that is not a stream.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Only our own script and style, nothing in frames, no forms that leave the page.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// The names under which this server may be asked.
#[derive(Clone, Debug)]
pub(super) struct AllowedHosts(Vec<AllowedHost>);

/// A value of `Host` that means this server, and the origin of its own pages then.
#[derive(Clone, Debug)]
struct AllowedHost {
    host: String,
    origin: String,
}

impl AllowedHosts {
    /// Returns the names of a loopback address, each with the port, and the public one.
    pub(super) fn of(address: SocketAddr, public: Option<&PublicAddress>) -> Self {
        let own = [format!("{address}"), format!("localhost:{}", address.port())];
        let own = own.map(|host| AllowedHost { origin: format!("http://{host}"), host });
        let public = public
            .map(|public| AllowedHost { host: public.host().to_owned(), origin: public.origin() });
        Self(own.into_iter().chain(public).collect())
    }

    /// Returns the origin of our own pages under a name, if the name is ours.
    fn origin_of(&self, host: &str) -> Option<&str> {
        self.0.iter().find(|allowed| allowed.host == host).map(|allowed| &*allowed.origin)
    }
}

/// Refuses hostile requests, and marks every response as ours alone.
pub(super) async fn guard(
    State(hosts): State<Arc<AllowedHosts>>,
    request: Request,
    next: Next,
) -> Response {
    let refused = refuse(&hosts, request.method(), request.uri(), request.headers());
    let mut response = match refused {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    };
    add_headers(response.headers_mut());
    response
}

/// Limits the size of a body, and the time to the head of an answer.
pub(super) async fn limit(request: Request, next: Next) -> Response {
    match tokio::time::timeout(ANSWER_TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, "the answer takes too long")
            .next("try again")
            .into_response(),
    }
}

/// Returns the limit on bodies for the extractors.
pub(super) fn body_limit() -> DefaultBodyLimit {
    DefaultBodyLimit::max(usize::try_from(BODY_BYTES).unwrap_or(usize::MAX))
}

/// Returns why a request is refused, if it is.
fn refuse(
    hosts: &AllowedHosts,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Option<HttpProblem> {
    refuse_host(hosts, uri, headers)
        .or_else(|| {
            if is_for_dev_pages(uri) { None } else { refuse_origin(hosts, method, uri, headers) }
        })
        .or_else(|| refuse_shape(method, uri, headers))
}

/// Tells whether pages of the servers under care may ask for it; `dev_page` looks at their origin.
fn is_for_dev_pages(uri: &Uri) -> bool {
    uri.path() == dev_page::SCRIPT_PATH || uri.path().starts_with(dev_page::PREFIX)
}

/// Refuses names that are not ours, as a rebound one would be.
fn refuse_host(hosts: &AllowedHosts, uri: &Uri, headers: &HeaderMap) -> Option<HttpProblem> {
    let misdirected = || {
        let detail = "the Host header names another server";
        Some(HttpProblem::new(StatusCode::MISDIRECTED_REQUEST, detail))
    };
    let Some(host) = only(headers, &header::HOST) else { return misdirected() };
    let authority = uri.authority().map(|authority| authority.as_str());
    let is_ours = hosts.origin_of(host).is_some();
    if is_ours && authority.is_none_or(|authority| authority == host) {
        None
    } else {
        misdirected()
    }
}

/// Refuses requests that a page of another origin caused.
fn refuse_origin(
    hosts: &AllowedHosts,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Option<HttpProblem> {
    let forbidden = || {
        let detail = "the request comes from a page of another origin";
        Some(HttpProblem::new(StatusCode::FORBIDDEN, detail))
    };
    if headers.contains_key(header::ORIGIN) {
        let own = only(headers, &header::HOST).and_then(|host| hosts.origin_of(host));
        if own.is_none() || only(headers, &header::ORIGIN) != own {
            return forbidden();
        }
    }
    let fetch_header = |name: &'static str| {
        let name = HeaderName::from_static(name);
        headers.contains_key(&name).then(|| only(headers, &name).unwrap_or_default())
    };
    match fetch_header("sec-fetch-site") {
        None | Some("same-origin" | "none") => None,
        // A link elsewhere may lead to the page; what it opens holds no data and acts on nothing.
        Some("same-site" | "cross-site")
            if *method == Method::GET
                && fetch_header("sec-fetch-mode") == Some("navigate")
                && fetch_header("sec-fetch-dest") == Some("document")
                && !uri.path().starts_with("/api/") =>
        {
            None
        }
        Some(_) => forbidden(),
    }
}

/// Refuses methods, types, sizes and paths that nothing here takes.
fn refuse_shape(method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<HttpProblem> {
    let is_write = *method == Method::POST;
    // A client of the tools ends its session so.
    let is_end = *method == Method::DELETE && uri.path().starts_with("/mcp");
    if !is_write && !is_end && *method != Method::GET && *method != Method::HEAD {
        let detail = "only GET, HEAD and POST are taken";
        return Some(HttpProblem::new(StatusCode::METHOD_NOT_ALLOWED, detail));
    }
    let text = uri.path_and_query().map_or("", |text| text.as_str());
    if text.len() > URI_BYTES {
        return Some(HttpProblem::new(StatusCode::URI_TOO_LONG, "the address is too long"));
    }
    let path = uri.path().to_ascii_lowercase();
    if ["//", "..", "%2e", "%2f", "%5c", "%00", "\\"].iter().any(|odd| path.contains(odd)) {
        return Some(HttpProblem::bad_request("the path is not in its plain form"));
    }
    if headers.contains_key(header::TRANSFER_ENCODING)
        && headers.contains_key(header::CONTENT_LENGTH)
    {
        return Some(HttpProblem::bad_request("the body has two lengths"));
    }
    if !is_write {
        return None;
    }
    let kind = only(headers, &header::CONTENT_TYPE).unwrap_or_default();
    let media = kind.split(';').next().unwrap_or_default().trim();
    // A browser asks before it lets a page send JSON elsewhere, and nothing here answers that.
    let is_report = is_for_dev_pages(uri) && media.eq_ignore_ascii_case("text/plain");
    if !is_report && !media.eq_ignore_ascii_case("application/json") {
        let detail = "only application/json is taken";
        return Some(HttpProblem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let length = only(headers, &header::CONTENT_LENGTH).and_then(|text| text.parse::<u64>().ok());
    if length.is_some_and(|length| length > BODY_BYTES) {
        return Some(HttpProblem::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large"));
    }
    None
}

/// Returns a header's value if there is exactly one and it is text.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

fn add_headers(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let policy = HeaderName::from_static("cross-origin-resource-policy");
    headers.entry(policy).or_insert(HeaderValue::from_static("same-origin"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks whether a request to `127.0.0.1:7717` is refused, and with which status.
    #[track_caller]
    fn check(method: &str, uri: &str, headers: &[(&str, &str)], want: Option<u16>) {
        let public = "https://box.example".parse().unwrap();
        let hosts = AllowedHosts::of("127.0.0.1:7717".parse().unwrap(), Some(&public));
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        let refused = refuse(&hosts, &method.parse().unwrap(), &uri.parse().unwrap(), &map);
        assert_eq!(refused.map(|problem| problem.status), want, "{method} {uri} {headers:?}");
    }

    const HOST: (&str, &str) = ("host", "127.0.0.1:7717");
    const JSON: (&str, &str) = ("content-type", "application/json");

    #[test]
    fn what_our_page_and_honest_scripts_send_passes() {
        check("GET", "/", &[HOST], None);
        check("GET", "/", &[("host", "localhost:7717")], None);
        check("HEAD", "/api/incidents", &[HOST], None);
        let own = ("origin", "http://127.0.0.1:7717");
        check("POST", "/api/session", &[HOST, JSON, own], None);
        let utf8 = ("content-type", "Application/JSON; charset=utf-8");
        check("POST", "/api/session", &[HOST, utf8, ("sec-fetch-site", "same-origin")], None);
        check("GET", "/incidents/a", &[HOST, ("sec-fetch-site", "none")], None);
        let link = [
            HOST,
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        check("GET", "/incidents/a", &link, None);
    }

    #[test]
    fn the_public_address_is_ours_with_its_own_origin_only() {
        let public = ("host", "box.example");
        check("GET", "/", &[public], None);
        let own = ("origin", "https://box.example");
        check("POST", "/api/answer-link", &[public, JSON, own], None);
        for origin in ["http://box.example", "http://127.0.0.1:7717", "https://evil.example"] {
            check("POST", "/api/answer-link", &[public, JSON, ("origin", origin)], Some(403));
        }
        check("POST", "/api/answer-link", &[HOST, JSON, own], Some(403));
    }

    #[test]
    fn other_names_are_not_ours() {
        for host in ["evil.example", "127.0.0.1", "127.0.0.1:80", "localhost", "localhost:7717."] {
            check("GET", "/", &[("host", host)], Some(421));
        }
        check("GET", "/", &[], Some(421));
        check("GET", "/", &[HOST, HOST], Some(421));
        check("GET", "http://evil.example/", &[HOST], Some(421));
    }

    #[test]
    fn other_origins_reach_nothing() {
        for origin in ["http://evil.example", "null", "http://localhost:7717", "http://127.0.0.1"] {
            check("GET", "/api/incidents", &[HOST, ("origin", origin)], Some(403));
        }
        let twice = ("origin", "http://127.0.0.1:7717");
        check("POST", "/api/session", &[HOST, JSON, twice, twice], Some(403));
        for site in ["cross-site", "same-site", "anything"] {
            check("GET", "/api/incidents", &[HOST, ("sec-fetch-site", site)], Some(403));
        }
        let navigate = [
            HOST,
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        check("GET", "/api/events", &navigate, Some(403));
        check("POST", "/", &navigate, Some(403));
        let frame = [HOST, navigate[1], navigate[2], ("sec-fetch-dest", "iframe")];
        check("GET", "/", &frame, Some(403));
    }

    #[test]
    fn dev_pages_reach_their_own_routes_and_nothing_else() {
        let (dev, cross) = (("origin", "http://localhost:5173"), ("sec-fetch-site", "cross-site"));
        let text = ("content-type", "text/plain;charset=UTF-8");
        check("GET", "/salve.js", &[HOST, cross], None);
        check("GET", "/dev-page/stream", &[HOST, dev, cross], None);
        check("POST", "/dev-page/report", &[HOST, dev, cross, text], None);
        check("POST", "/dev-page/report", &[("host", "evil.example"), dev, text], Some(421));
        check("POST", "/api/session", &[HOST, text], Some(415));
        check("GET", "/dev-page", &[HOST, dev], Some(403));
        check("GET", "/salve.js/api", &[HOST, dev], Some(403));
    }

    #[test]
    fn odd_methods_types_sizes_and_paths_are_refused() {
        for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"] {
            check(method, "/api/incidents", &[HOST], Some(405));
        }
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
            check("POST", "/api/session", &[HOST, ("content-type", kind)], Some(415));
        }
        check("POST", "/api/session", &[HOST], Some(415));
        check("POST", "/api/session", &[HOST, JSON, ("content-length", "65537")], Some(413));
        let long = format!("/{}", "a".repeat(5000));
        check("GET", &long, &[HOST], Some(414));
        for path in ["/../etc/passwd", "/assets/%2e%2e/x", "/a//b", "/a%00b", "/assets/%5c..%5cx"] {
            check("GET", path, &[HOST], Some(400));
        }
        let both = [HOST, JSON, ("content-length", "2"), ("transfer-encoding", "chunked")];
        check("POST", "/api/session", &both, Some(400));
    }
}
