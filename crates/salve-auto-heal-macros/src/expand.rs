//! Turns a function into one that is called again after a fix.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::meta::ParseNestedMeta;
use syn::parse::Parser as _;
use syn::spanned::Spanned as _;
use syn::{Error, FnArg, ItemFn, LitInt, LitStr, Pat, ReceiverKind, Result, ReturnType, Type};

/// The clusters that the tools spec names.
const CLUSTERS: [&str; 5] = ["auto", "ephemeral", "stage", "prod", "konflux"];

/// The cluster that an attribute's own name says.
#[derive(Clone, Copy)]
pub(crate) enum FixedCluster {
    /// It says none.
    None,
    /// This one.
    Named(&'static str),
}

/// What the attribute's arguments say.
struct HealArguments {
    cluster: String,
    max_retries: Option<u32>,
    name: Option<String>,
    is_read_only: bool,
    is_idempotent: bool,
}

impl HealArguments {
    fn parse(arguments: TokenStream, fixed: FixedCluster) -> Result<Self> {
        let cluster = match fixed {
            FixedCluster::None => "auto",
            FixedCluster::Named(name) => name,
        };
        let mut said = Self {
            cluster: cluster.to_owned(),
            max_retries: None,
            name: None,
            is_read_only: false,
            is_idempotent: false,
        };
        syn::meta::parser(|meta| said.take(&meta, fixed)).parse2(arguments)?;
        Ok(said)
    }

    fn take(&mut self, meta: &ParseNestedMeta, fixed: FixedCluster) -> Result<()> {
        let is = |name: &str| meta.path.is_ident(name);
        if is("cluster") {
            if let FixedCluster::Named(name) = fixed {
                return Err(meta.error(format!("this attribute is for the cluster {name} already")));
            }
            let cluster: LitStr = meta.value()?.parse()?;
            self.cluster = cluster.value();
            if !CLUSTERS.contains(&&*self.cluster) {
                let known = CLUSTERS.join(", ");
                return Err(Error::new(cluster.span(), format!("the clusters are {known}")));
            }
        } else if is("max_retries") {
            self.max_retries = Some(meta.value()?.parse::<LitInt>()?.base10_parse()?);
        } else if is("name") {
            self.name = Some(meta.value()?.parse::<LitStr>()?.value());
        } else if is("read_only") {
            self.is_read_only = true;
        } else if is("idempotent") {
            self.is_idempotent = true;
        } else {
            let known = "cluster, max_retries, name, read_only and idempotent";
            return Err(meta.error(format!("the arguments are {known}")));
        }
        Ok(())
    }
}

/// Returns the function that heals itself.
pub(crate) fn expand(
    arguments: TokenStream,
    item: TokenStream,
    fixed: FixedCluster,
) -> Result<TokenStream> {
    let said = HealArguments::parse(arguments, fixed)?;
    let mut function: ItemFn = syn::parse2(item)
        .map_err(|error| Error::new(error.span(), "#[auto_heal] is for functions"))?;
    let returned = returned_type(&function)?;
    let copies = argument_copies(&mut function)?;
    let name = said.name.unwrap_or_else(|| function.sig.ident.to_string());
    let (cluster, is_read_only, is_idempotent) =
        (said.cluster, said.is_read_only, said.is_idempotent);
    let max_retries = match said.max_retries {
        Some(times) => quote!(::core::option::Option::Some(#times)),
        None => quote!(::core::option::Option::None),
    };
    let body = &function.block;
    let (called, again) = if function.sig.asyncness.is_some() {
        (quote!((async || -> #returned #body)().await), quote!(may_call_again_async(failure).await))
    } else {
        (quote!((|| -> #returned #body)()), quote!(may_call_again(failure)))
    };
    let (attributes, visibility, signature) = (&function.attrs, &function.vis, &function.sig);
    Ok(quote! {
        #(#attributes)*
        #visibility #signature {
            let mut __salve_call = ::salve_auto_heal::__private::HealedCall::new(
                ::salve_auto_heal::__private::healed_tool(
                    #name, #cluster, #max_retries, #is_read_only, #is_idempotent,
                ),
            );
            loop {
                let __salve_outcome: #returned = {
                    #copies
                    #called
                };
                let failure = {
                    use ::salve_auto_heal::__private::{LookAtAnswer as _, LookAtError as _};
                    (&&::salve_auto_heal::__private::Look::at(&__salve_outcome)).failure()
                };
                if !__salve_call.#again {
                    break __salve_outcome;
                }
            }
        }
    })
}

/// Returns what the function returns, which has to be a value that can say that it failed.
fn returned_type(function: &ItemFn) -> Result<Type> {
    let span = function.sig.ident.span();
    if function.sig.constness.is_some() {
        return Err(Error::new(span, "a const fn cannot be healed"));
    }
    match &function.sig.output {
        ReturnType::Default => Err(Error::new(
            span,
            "#[auto_heal] needs a function that returns a result: without one, nobody can tell that a call failed",
        )),
        ReturnType::Type(_, returned) if is_pinned(returned) => Err(Error::new(
            returned.span(),
            "this function returns a future already: write #[auto_heal] above #[tool]",
        )),
        ReturnType::Type(_, returned) => Ok((**returned).clone()),
    }
}

fn is_pinned(returned: &Type) -> bool {
    let Type::Path(path) = returned else { return false };
    path.path.segments.last().is_some_and(|last| last.ident == "Pin")
}

/// Gives every argument a name, and returns the statements that copy the arguments for one call.
fn argument_copies(function: &mut ItemFn) -> Result<TokenStream> {
    let mut copies = TokenStream::new();
    for (at, argument) in function.sig.inputs.iter_mut().enumerate() {
        match argument {
            FnArg::Receiver(receiver) if !matches!(receiver.kind, ReceiverKind::Reference(..)) => {
                return Err(Error::new(
                    receiver.span(),
                    "a method that consumes `self` cannot be called again; take `&self`",
                ));
            }
            FnArg::Receiver(_) => {}
            FnArg::Typed(typed) => {
                if let Type::Reference(reference) = &*typed.ty
                    && reference.mutability.is_some()
                {
                    return Err(Error::new(
                        reference.span(),
                        "a failed call may have changed this already: a tool that heals takes no `&mut`",
                    ));
                }
                let name = format_ident!("__salve_argument_{at}", span = Span::mixed_site());
                let taken = std::mem::replace(&mut *typed.pat, syn::parse_quote!(#name));
                let copy = quote!(::core::clone::Clone::clone(&#name));
                copies.extend(match taken {
                    Pat::Wild(_) => quote!(),
                    taken => quote!(let #taken = #copy;),
                });
            }
        }
    }
    Ok(copies)
}
