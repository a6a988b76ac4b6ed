//! Tests of finding tools in source, as the frameworks' own documents write them.

use super::registration::{PieceKind, SourceLanguage, pieces};
use super::*;

/// Looks for `get_weather` and compares what is found: how sure, and what it begins and ends with.
#[track_caller]
fn check(language: SourceLanguage, text: &str, want: &[(PieceKind, &str, &str)]) {
    let found = pieces(language, text, "get_weather");
    let code = |piece: &SourcePiece| text[piece.bytes.clone()].to_owned();
    let got: Vec<(PieceKind, String)> =
        found.iter().map(|piece| (piece.kind, code(piece))).collect();
    let fits = got.len() == want.len()
        && got.iter().zip(want).all(|((kind, code), (wanted, begins, ends))| {
            kind == wanted && code.starts_with(begins) && code.ends_with(ends)
        });
    assert!(fits, "{text}\nfound {got:#?}");
}

use PieceKind::{Branch, Decorated, Registered, SameName};
use SourceLanguage::{Go, Python, Rust, TypeScript};

#[test]
fn tools_of_python_are_found() {
    for (text, want) in [
        (
            "x = 1\n@mcp.tool()\nasync def get_weather(city: str) -> str:\n    return city\ny = 2\n",
            vec![(Decorated, "@mcp.tool()", "return city")],
        ),
        (
            "@auto_heal()\n@registry.tool()\ndef get_weather():\n    pass\n",
            vec![(Decorated, "@auto_heal()", "pass")],
        ),
        (
            "@mcp.tool(name=\"get_weather\")\ndef weather_impl():\n    return 1\n",
            vec![(Decorated, "@mcp.tool", "return 1")],
        ),
        (
            "def impl(a):\n    return a\n\nmcp.add_tool(impl, name='get_weather')\n",
            vec![(Registered, "def impl", "return a"), (Registered, "mcp.add_tool", ")")],
        ),
        (
            "@server.list_tools()\nasync def all():\n    return [types.Tool(name=\"get_weather\", inputSchema={})]\n\n\
             @server.call_tool()\nasync def call(name, arguments):\n    if name == \"get_weather\":\n        return run()\n    raise X\n",
            vec![(Registered, "types.Tool(", "{})"), (Branch, "if name ==", "run()")],
        ),
        ("def get_weather():\n    pass\n", vec![(SameName, "def get_weather", "pass")]),
        ("print('get_weather')\nLOG = 'get_weather failed'\n", vec![]),
    ] {
        check(Python, text, &want);
    }
}

#[test]
fn tools_of_typescript_are_found() {
    for (text, want) in [
        (
            "server.registerTool(\"get_weather\", { inputSchema: {} }, async ({ city }) => {\n  return city;\n});\n",
            vec![(Registered, "server.registerTool", "})")],
        ),
        (
            "const impl = async () => 1;\nserver.tool('get_weather', impl);\n",
            vec![(Registered, "const impl", "1;"), (Registered, "server.tool", "impl)")],
        ),
        (
            "server.addTool({ name: \"get_weather\", execute: async () => { return 1; } });",
            vec![(Registered, "server.addTool", "})")],
        ),
        (
            "const TOOLS = [{ name: \"get_weather\", inputSchema: {} }];\n\
             function call(name: string) {\n  switch (name) {\n    case \"get_weather\":\n      return run();\n    default: throw 1;\n  }\n}\n",
            vec![(Registered, "{ name:", "}"), (Branch, "case \"get_weather\"", "run();")],
        ),
        (
            "class A {\n  @Tool({ name: 'get_weather' })\n  async weather() { return 1; }\n}\n",
            vec![(Decorated, "@Tool", "return 1; }")],
        ),
        ("console.log(\"get_weather\");", vec![]),
    ] {
        check(TypeScript, text, &want);
    }
}

#[test]
fn tools_of_rust_are_found() {
    for (text, want) in [
        (
            "impl S {\n    /// Weather.\n    #[tool(description = \"Weather\")]\n    async fn get_weather(&self) -> String {\n        go()\n    }\n}\n",
            vec![(Decorated, "/// Weather.", "}")],
        ),
        (
            "impl S {\n    #[tool(name = \"get_weather\")]\n    fn weather(&self) {}\n}\n",
            vec![(Decorated, "#[tool", "{}")],
        ),
        (
            "fn call(name: &str) {\n    match name {\n        \"get_weather\" => run(),\n        _ => {}\n    }\n}\n",
            vec![(Branch, "\"get_weather\" =>", "run(),")],
        ),
        (
            "fn list() { let t = Tool::new(\"get_weather\", d, s); }",
            vec![(Registered, "Tool::new", ")")],
        ),
    ] {
        check(Rust, text, &want);
    }
}

#[test]
fn tools_of_go_are_found() {
    for (text, want) in [
        (
            "package m\n\nfunc SayHi(a int) int { return a }\n\nfunc main() {\n\tmcp.AddTool(s, &mcp.Tool{Name: \"get_weather\"}, SayHi)\n}\n",
            vec![(Registered, "func SayHi", "}"), (Registered, "mcp.AddTool", ")")],
        ),
        (
            "package m\n\nfunc main() {\n\ttool := mcp.NewTool(\"get_weather\", mcp.WithDescription(\"w\"))\n\ts.AddTool(tool, handle)\n}\n\nfunc handle() error { return nil }\n",
            vec![(Registered, "mcp.NewTool", "(\"w\"))"), (Registered, "func handle", "}")],
        ),
        (
            "package m\n\nfunc call(n string) {\n\tswitch n {\n\tcase \"get_weather\":\n\t\trun()\n\t}\n}\n",
            vec![(Branch, "case \"get_weather\"", "run()")],
        ),
    ] {
        check(Go, text, &want);
    }
}

#[test]
fn the_surest_file_wins_and_foreign_directories_are_not_looked_into() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let write = |name: &str, text: &str| {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let tool = "@mcp.tool\ndef get_weather():\n    return 1\n";
    write("node_modules/x/a.py", tool);
    write(".venv/a.py", tool);
    let roots = [root.to_path_buf()];
    assert_eq!(find_tool(&roots, "get_weather"), None);
    write("a_first.py", "def get_weather():\n    pass\n");
    write("tests/test_a.py", tool);
    write("src/server.py", &format!("import mcp\n\n{tool}"));
    write("src/broken.py", "def get_weather(:::\n\x00");
    let found = find_tool(&roots, "get_weather").unwrap();
    assert_eq!((found.file, found.line), (root.join("src/server.py"), 3));
    assert_eq!(found.code, tool.trim_end());
    assert!(found.others.iter().any(|other| other.ends_with("a_first.py:1")), "{:?}", found.others);
    assert_eq!(find_tool(&roots, ""), None);
}
