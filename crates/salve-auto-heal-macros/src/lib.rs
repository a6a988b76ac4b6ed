//! `#[auto_heal]` and its variants: a function that returns a result, and is called again after
//! what kept it from working is fixed.
//!
//! Use them through the crate `salve-auto-heal`, which says what they do.

mod expand;

use proc_macro::TokenStream;

use self::expand::FixedCluster;

/// Heals failed calls of a function that returns a result, sync or async.
///
/// `cluster` (`"auto"`), `max_retries` (a number), and where it is safe to call the tool twice
/// although the first call may have acted: `read_only` or `idempotent`. `name` is what rules call
/// the tool, if that is not the function's name.
#[proc_macro_attribute]
pub fn auto_heal(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expanded(arguments, item, FixedCluster::None)
}

/// [`macro@auto_heal`] for tools of ephemeral clusters.
#[proc_macro_attribute]
pub fn auto_heal_ephemeral(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expanded(arguments, item, FixedCluster::Named("ephemeral"))
}

/// [`macro@auto_heal`] for tools of the stage cluster.
#[proc_macro_attribute]
pub fn auto_heal_stage(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expanded(arguments, item, FixedCluster::Named("stage"))
}

/// [`macro@auto_heal`] for tools of the Konflux cluster.
#[proc_macro_attribute]
pub fn auto_heal_konflux(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expanded(arguments, item, FixedCluster::Named("konflux"))
}

fn expanded(arguments: TokenStream, item: TokenStream, cluster: FixedCluster) -> TokenStream {
    let expanded = expand::expand(arguments.into(), item.into(), cluster);
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}
