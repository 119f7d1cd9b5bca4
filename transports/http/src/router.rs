//! Paths and methods, built from the wire's rows: a path that no row has is not found, a method that no row of the path has
//! is not allowed. Knows no handler. Clause: H27.

use http::{HeaderValue, Method};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use triplane_protocol::{
    larik::Op,
    rest::{Pair, Verb},
};

/// All paths.
#[derive(Debug)]
pub(crate) struct Router(matchit::Router<Resource>);

/// What can be done at one path.
#[derive(Debug, Default)]
pub(crate) struct Resource {
    ops: Vec<(Verb, Op)>,
}

/// A path that was found.
#[derive(Debug)]
pub(crate) struct Found<'r, 'p> {
    /// What can be done there.
    pub(crate) resource: &'r Resource,
    params: matchit::Params<'r, 'p>,
}

impl Router {
    /// From the rows. Errors: two templates that exclude each other, which is a defect of the table.
    pub(crate) fn new() -> Result<Self, matchit::InsertError> {
        let mut templates: Vec<(&str, Resource)> = Vec::new();
        for op in Op::ALL {
            let row = op.row();
            match templates.iter_mut().find(|(path, _)| *path == row.path) {
                Some((_, resource)) => resource.ops.push((row.verb, *op)),
                None => templates.push((row.path, Resource { ops: vec![(row.verb, *op)] })),
            }
        }
        let mut router = matchit::Router::new();
        for (path, resource) in templates {
            router.insert(path, resource)?;
        }
        Ok(Self(router))
    }

    /// Looks a path up, as it stands in the request line.
    pub(crate) fn find<'r, 'p>(&'r self, path: &'p str) -> Option<Found<'r, 'p>> {
        let found = self.0.at(path).ok()?;
        Some(Found { resource: found.value, params: found.params })
    }
}

impl Resource {
    /// The operation of a method; `HEAD` is that of `GET`.
    pub(crate) fn op(&self, method: &Method) -> Option<Op> {
        let name = if method == Method::HEAD { "GET" } else { method.as_str() };
        self.ops.iter().find(|(verb, _)| verb.as_str() == name).map(|(_, op)| *op)
    }

    /// `Allow`, and what a preflight is told.
    pub(crate) fn allow(&self) -> HeaderValue {
        let mut words: Vec<&str> = Vec::new();
        for verb in Verb::ALL {
            if self.ops.iter().any(|(known, _)| known == verb) {
                words.push(verb.as_str());
                if *verb == Verb::Get {
                    words.push("HEAD");
                }
            }
        }
        words.push("OPTIONS");
        // Words of letters are always a header value.
        HeaderValue::from_str(&words.join(", ")).unwrap_or(HeaderValue::from_static("OPTIONS"))
    }
}

impl Found<'_, '_> {
    /// The path's parameters with their escapes undone; `None` when one is not UTF-8, and so names nothing.
    pub(crate) fn params(&self) -> Option<Vec<Pair<'static>>> {
        let decode = |text| percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned);
        self.params
            .iter()
            .map(|(name, value)| Some((Cow::Owned(name.to_owned()), Cow::Owned(decode(value)?))))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(path: &str) -> Option<String> {
        let router = Router::new().unwrap();
        router.find(path).map(|found| found.resource.allow().to_str().unwrap().to_owned())
    }

    #[test]
    fn every_row_is_found_by_its_path_and_method() {
        let router = Router::new().unwrap();
        for op in Op::ALL {
            let path = op.row().path.replace(['{', '}'], "");
            let found = router.find(&path).unwrap();
            let method: Method = op.row().verb.as_str().parse().unwrap();
            assert_eq!(found.resource.op(&method), Some(*op), "{}", op.row().name);
        }
    }

    #[test]
    fn allow_lists_what_the_path_has() {
        assert_eq!(allow("/v1/health").unwrap(), "GET, HEAD, OPTIONS");
        assert_eq!(allow("/v1/sessions").unwrap(), "GET, HEAD, POST, OPTIONS");
        assert_eq!(allow("/v1/sessions/x").unwrap(), "GET, HEAD, PATCH, DELETE, OPTIONS");
        for nothing in
            ["/", "/v1", "/v1/sessions/", "//v1/health", "/v1/health/", "/v1/%68ealth", "/v1/sessions/a/b/c/d", "*"]
        {
            assert_eq!(allow(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn params_are_decoded_once() {
        let router = Router::new().unwrap();
        let id = |path: &str| router.find(path).unwrap().params().map(|pairs| pairs[0].1.clone().into_owned());
        assert_eq!(id("/v1/sessions/a%2Fb"), Some("a/b".into()));
        assert_eq!(id("/v1/sessions/a%252Fb"), Some("a%2Fb".into()));
        assert_eq!(id("/v1/sessions/..%2f..%2fetc"), Some("../../etc".into()));
        assert_eq!(id("/v1/sessions/a+b"), Some("a+b".into()));
        assert_eq!(id("/v1/sessions/%ff"), None);
    }
}
