use rmcp::{tool, tool_router};
use salve_auto_heal::auto_heal;

struct Pods;

#[tool_router]
impl Pods {
    #[tool]
    #[auto_heal]
    async fn list(&self) -> Result<String, String> {
        Ok(String::new())
    }
}

fn main() {}
