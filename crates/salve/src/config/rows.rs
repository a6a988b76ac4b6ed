//! What rows of the fingerprint tables look like to editors.

use salve_core::class::Class;
use schemars::JsonSchema;

/// A failure known by the shape of a line; what [`AnchorRow`](salve_core::fingerprint::AnchorRow) looks like to editors.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct AnchorSchema {
    /// Stable dotted name; it is part of the signature
    id: String,
    /// Class of the failure
    #[schemars(extend("enum" = class_names()))]
    class: String,
    /// What people call it
    error_type: Option<String>,
    /// Lines that name it: literal text with holes such as {port:port}
    shapes: Vec<String>,
    /// Holes that tell one such failure from another, in this order
    identify: Option<Vec<String>>,
    /// Shapes of lines around that add holes
    near: Option<Vec<String>>,
    /// Texts that must all occur somewhere in the output
    require: Option<Vec<String>>,
    /// Texts of which one must occur somewhere in the output
    any: Option<Vec<String>>,
    /// How surely the line names the failure, if its class does not say: wrappers 10 to 20, code 54, infrastructure 60, root causes 70 and more
    weight: Option<u8>,
    /// Whether upper and lower case are the same
    fold: Option<bool>,
    /// Whether the topmost function of the project joins the identity
    frame: Option<bool>,
    /// Texts that it must recognise
    examples: Option<Vec<ExampleSchema>>,
    /// Texts that it must not match
    counter: Option<Vec<String>>,
}

/// A text that an anchor must recognise.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ExampleSchema {
    /// Output, of one line or several
    text: String,
    /// Values of the identifying holes
    holes: Option<Vec<String>>,
}

/// A rule that classifies; what [`ClassRow`](salve_core::fingerprint::ClassRow) looks like to editors.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ClassSchema {
    /// What the rule is called in messages
    name: String,
    /// Class that it gives
    #[schemars(extend("enum" = class_names()))]
    class: String,
    /// Words of which one must occur
    any: Vec<String>,
    /// Words of which one must occur, too
    also: Option<Vec<String>>,
    /// Words of which none may occur
    never: Option<Vec<String>>,
    /// Lines that must get this class
    examples: Option<Vec<String>>,
    /// Lines to which the rule must not apply
    counter: Option<Vec<String>>,
}

fn class_names() -> Vec<&'static str> {
    Class::ALL.iter().map(|class| class.as_str()).collect()
}
