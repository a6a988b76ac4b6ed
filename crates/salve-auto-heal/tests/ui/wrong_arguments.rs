use salve_auto_heal::{auto_heal, auto_heal_stage};

#[auto_heal(cluster = "moon")]
fn unknown_cluster() -> Result<(), String> {
    Ok(())
}

#[auto_heal(retries = 1)]
fn unknown_argument() -> Result<(), String> {
    Ok(())
}

#[auto_heal(max_retries = -1)]
fn negative() -> Result<(), String> {
    Ok(())
}

#[auto_heal_stage(cluster = "prod")]
fn two_clusters() -> Result<(), String> {
    Ok(())
}

fn main() {}
