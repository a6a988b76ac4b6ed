use salve_auto_heal::auto_heal;

#[auto_heal]
fn nothing() {}

#[auto_heal]
fn number() -> u32 {
    1
}

fn main() {}
