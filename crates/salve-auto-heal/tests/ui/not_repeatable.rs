use salve_auto_heal::auto_heal;

struct Token;

#[auto_heal]
fn not_cloned(token: Token) -> Result<(), String> {
    drop(token);
    Ok(())
}

#[auto_heal]
fn changes(rows: &mut Vec<u8>) -> Result<(), String> {
    rows.clear();
    Ok(())
}

impl Token {
    #[auto_heal]
    fn consumed(self) -> Result<(), String> {
        Ok(())
    }
}

#[auto_heal]
struct NoFunction;

fn main() {}
