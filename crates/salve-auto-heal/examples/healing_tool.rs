//! An MCP server with one tool that heals itself: `cargo run -p salve-auto-heal --example healing_tool`.
//!
//! It asks a service that wants a token. The first call finds none, logs in, and is made again; the
//! client sees the answer only.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use rmcp::handler::server::wrapper::Parameters;
use rmcp::{ServiceExt as _, tool, tool_router};
use salve_auto_heal::{AutoHeal, auto_heal};

struct Orders {
    token: PathBuf,
}

#[tool_router(server_handler)]
impl Orders {
    #[auto_heal(cluster = "auto", max_retries = 1)]
    #[tool(description = "Lists the orders of a customer", annotations(read_only_hint = true))]
    async fn list_orders(
        &self,
        Parameters(customer): Parameters<BTreeMap<String, String>>,
    ) -> Result<String, String> {
        fs::read_to_string(&self.token).map_err(|_| "401 Unauthorized: no token".to_owned())?;
        Ok(format!("3 orders of {}", customer.get("name").map_or("everybody", String::as_str)))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let token = std::env::temp_dir().join(format!("orders-token-{}", std::process::id()));
    let file = token.clone();
    AutoHeal::from_user_settings()?
        .function("kube_login", move |_| {
            fs::write(&file, "token").map_err(|error| error.to_string())
        })
        .install()?;
    let orders = Orders { token: token.clone() };
    orders.serve((tokio::io::stdin(), tokio::io::stdout())).await?.waiting().await?;
    Ok(fs::remove_file(token).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?)
}
