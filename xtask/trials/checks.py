"""Checks with the tools that people use."""

from scratch import TRIALS, story  # noqa: F401  (TRIALS is read by run.py)

CART = "def total(prices):\n    return sum(prices)\n"
TEST = "from cart import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n"
IGNORED = ".venv/\nnode_modules/\n__pycache__/\n.pytest_cache/\n.salve/\ntarget/\ndist/\n"
PIP = "--disable-pip-version-check -q"


def python_project(it, requirements="pytest==8.3.3\n", venv=True):
    """Makes a small project of Python with an environment."""
    it.write({"cart.py": CART, "test_cart.py": TEST, "requirements.txt": requirements,
              ".gitignore": IGNORED})
    if venv:
        it.sh(f"python3 -m venv .venv && .venv/bin/pip install {PIP} -r requirements.txt")
    it.commit()


@story("pytest: green is left alone, red is told with its place")
def _(it):
    python_project(it)
    it.salve("heal", "--", ".venv/bin/pytest", "-q", says=["green"])
    it.write({"cart.py": CART.replace("sum(prices)", "sum(prices) + 1")})
    it.salve("heal", "--", ".venv/bin/pytest", "-q", code=3,
             says=["The test fails", "test_cart.py:5"], never=["healed", "code.types"])
    it.write({"cart.py": CART.replace("sum(prices)", "sum(prices) / 0")})
    it.salve("heal", "--", ".venv/bin/pytest", "-q", code=3, says=["cart.py:2"], never=["healed"])


@story("pytest: an import that fails is told at the module that imports")
def _(it):
    python_project(it)
    it.write({"cart.py": "import nump\n" + CART})
    it.salve("heal", "--", ".venv/bin/pytest", "-q", code=3,
             says=["`nump` is imported (cart.py:1), but nothing declares it"])


WAYS = {
    "pytest": ["pytest", "-q"],
    "python -m pytest": ["python", "-m", "pytest", "-q"],
    ".venv/bin/pytest": [".venv/bin/pytest", "-q"],
    ".venv/bin/python -m pytest": [".venv/bin/python", "-m", "pytest", "-q"],
}


def way_story(title, spoil, ways=None):
    """Registers a story for each way in which a command may be written."""
    for way, argv in (ways or WAYS).items():

        @story(f"venv: {title}, run by `{way}`")
        def _(it, argv=argv):
            python_project(it)
            spoil(it)
            it.salve("heal", "--", *argv, says=["healed"])
            it.unchanged()


way_story("not active", lambda it: None, {k: WAYS[k] for k in ("pytest", "python -m pytest")})
way_story("interpreter gone", lambda it: it.sh("ln -sfn /opt/gone/python3 .venv/bin/python3; "
                                               "ln -sfn python3 .venv/bin/python"))
way_story("moved", lambda it: it.sh(
    "sed -i '1s|#!.*|#!/old/place/.venv/bin/python|' .venv/bin/pytest .venv/bin/pip"),
    {way: WAYS[way] for way in ("pytest", ".venv/bin/pytest")})
way_story("made for another Python", lambda it: it.sh("mv .venv/lib/python3* .venv/lib/python3.2"))
way_story("a package missing", lambda it: it.sh(f".venv/bin/pip uninstall {PIP} -y iniconfig"))
way_story("the program missing", lambda it: it.sh(f".venv/bin/pip uninstall {PIP} -y pytest"))


def uv_project(it):
    """Makes a small project of uv."""
    it.write({"cart.py": CART, "test_cart.py": TEST, ".gitignore": IGNORED,
              "pyproject.toml": '[project]\nname = "shop"\nversion = "1"\n'
                                'requires-python = ">=3.9"\ndependencies = ["iniconfig"]\n'
                                '[dependency-groups]\ndev = ["pytest==8.3.3"]\n'})
    it.sh("uv sync -q")
    it.commit()


@story("uv: an environment whose interpreter is gone")
def _(it):
    uv_project(it)
    it.sh("ln -sfn /opt/gone/python3 .venv/bin/python")
    it.salve("heal", "--", "uv", "run", "pytest", "-q", says=["green"])


@story("uv: an environment that was moved")
def _(it):
    uv_project(it)
    it.sh("sed -i '1,2s|/.*/.venv/bin|/old/place/.venv/bin|' .venv/bin/pytest")
    it.salve("heal", "--", "uv", "run", "pytest", "-q")
    it.unchanged()


@story("uv: a lockfile behind its manifest is brought into agreement where --locked says so")
def _(it):
    uv_project(it)
    it.sh("sed -i 's/\"iniconfig\"/\"iniconfig\", \"packaging\"/' pyproject.toml")
    it.salve("heal", "--", "uv", "run", "--locked", "pytest", "-q", says=["python.uv-lock", "healed"])


def uv_workspace(it):
    """Makes a workspace of uv: a member with its tests, and an extra that somebody chose."""
    member = ('[project]\nname = "cart"\nversion = "1"\nrequires-python = ">=3.9"\n'
              'dependencies = ["iniconfig", "pytest==8.3.3"]\n'
              '[project.optional-dependencies]\nextra = ["markupsafe"]\n')
    it.write({"pyproject.toml": '[project]\nname = "shop"\nversion = "1"\nrequires-python = ">=3.9"\n'
                                '[tool.uv.workspace]\nmembers = ["cart"]\n',
              "cart/pyproject.toml": member, "cart/cart.py": "import iniconfig\n" + CART,
              "cart/test_cart.py": TEST, ".gitignore": IGNORED})
    it.sh("uv sync -q --all-packages --all-extras")
    it.commit()


for way in ("from the top", "from the member"):
    @story(f"uv: a member's package that is gone comes back and nothing else goes, {way}")
    def _(it, way=way):
        uv_workspace(it)
        it.sh("rm -rf .venv/lib/python3*/site-packages/iniconfig")
        if way == "from the top":
            it.salve("heal", "--", ".venv/bin/python", "-m", "pytest", "-q", "cart", says=["healed"])
        else:
            it.dir = it.dir / "cart"
            it.salve("heal", "--", "../.venv/bin/python", "-m", "pytest", "-q", says=["healed"])
            it.dir = it.dir.parent
        it.sh("test -d .venv/lib/python3*/site-packages/markupsafe")
        it.unchanged()


@story("pytest: versions that drifted from the requirements are seen as that")
def _(it):
    it.write({"requirements.txt": "pytest==8.3.3\nmarkupsafe==2.1.5\njinja2==3.1.4\n"})
    python_project(it, "pytest==8.3.3\nmarkupsafe==2.1.5\njinja2==3.1.4\n")
    it.write({"cart.py": "from jinja2 import pass_context\n" + CART})
    it.sh(f".venv/bin/pip install {PIP} --no-deps jinja2==2.11.3")
    it.salve("heal", "--", ".venv/bin/pytest", "-q", says=["python.drift", "healed"])


@story("pytest: a damaged file of an installed package is a damaged package")
def _(it):
    python_project(it)
    it.sh("echo 'def (' >> .venv/lib/python3*/site-packages/iniconfig/__init__.py")
    it.salve("heal", "--", ".venv/bin/pytest", "-q", says=["iniconfig", "healed"],
             never=["does not parse"])


@story("pytest: a deleted file is named with git restore")
def _(it):
    python_project(it)
    it.sh("rm cart.py; rm -rf __pycache__")
    it.salve("heal", "--", ".venv/bin/pytest", "-q", code=3, says=["git restore cart.py"])


@story("pytest: red now and then is flaky")
def _(it):
    python_project(it)
    it.write({"test_cart.py": "import os\n\n\ndef test_mood():\n    place = '../mood'\n"
                              "    if os.path.exists(place):\n        os.remove(place)\n"
                              "        assert 1 == 2\n"})
    it.salve("heal", "--", ".venv/bin/pytest", "-q", says=["green"])
    it.sh("touch ../mood")
    it.salve("heal", "--", ".venv/bin/pytest", "-q", says=["flaky"], never=["healed"])


@story("a check that is slow and green is left to end")
def _(it):
    it.write({"slow.sh": "sleep 20; echo ok\n"})
    it.commit()
    it.salve("heal", "--", "sh", "slow.sh", says=["green"], within=30)


@story("a check that hangs is ended at its limit and told")
def _(it):
    it.write({"hang.sh": "echo begun; sleep 600\n",
              "salve.toml": "[checks.hang]\ncommand = \"sh hang.sh\"\ntimeout_ms = 2000\n"})
    it.commit()
    it.salve("heal", "hang", code=3, within=30)


VITEST = {"package.json": '{"name":"shop","version":"1.0.0","type":"module","scripts":'
                          '{"test":"vitest"},"devDependencies":{"vitest":"3.2.4"}}',
          "cart.js": "export const total = (list) => list.reduce((a, b) => a + b, 0);\n",
          "cart.test.js": "import { expect, test } from 'vitest';\nimport { total } from './cart.js';"
                          "\n\ntest('total', () => {\n  expect(total([1, 2])).toBe(3);\n});\n",
          ".gitignore": IGNORED}


@story("vitest: packages missing, red, watching")
def _(it):
    it.write(VITEST)
    it.sh("npm install --no-audit --no-fund")
    it.commit()
    it.salve("heal", "--", "npx", "vitest", "run", says=["green"])
    it.sh("rm -rf node_modules")
    it.salve("heal", "--", "npm", "test", says=["healed"], within=90)
    it.sh("rm -rf node_modules/vite")
    it.salve("heal", "--", "npm", "test", says=["healed"], within=90)
    it.unchanged()
    it.salve("heal", "--", "npx", "vitest", "--watch", code=2, says=["watches", "vitest run"],
             within=60)
    it.write({"cart.js": VITEST["cart.js"].replace("a + b", "a - b")})
    it.salve("heal", "--", "npm", "test", code=3, says=["The test fails", "cart.test.js:5"])


@story("jest: packages missing, damaged, red")
def _(it):
    it.write({"package.json": '{"name":"shop","version":"1.0.0","scripts":{"test":"jest"},'
                              '"devDependencies":{"jest":"29.7.0"}}',
              "cart.js": "exports.total = (list) => list.reduce((a, b) => a + b, 0);\n",
              "cart.test.js": "const { total } = require('./cart');\n\ntest('total', () => {\n"
                              "  expect(total([1, 2])).toBe(3);\n});\n",
              ".gitignore": IGNORED})
    it.sh("npm install --no-audit --no-fund")
    it.commit()
    it.sh("rm -rf node_modules/expect")
    it.salve("heal", "--", "npm", "test", says=["healed"], within=120)
    it.sh("echo 'function (' >> node_modules/pretty-format/build/index.js")
    it.salve("heal", "--", "npm", "test", says=["healed"], never=["does not parse"], within=120)
    it.unchanged()
    it.write({"cart.js": "exports.total = (list) => list.length;\n"})
    it.salve("heal", "--", "npm", "test", code=3, says=["The test fails", "cart.test.js:4"])


@story("tsc and ruff: what they find is told with its place")
def _(it):
    it.write({"package.json": '{"name":"shop","version":"1.0.0"}',
              "tsconfig.json": '{"compilerOptions":{"strict":true,"noEmit":true},"include":["*.ts"]}',
              "cart.ts": "export const total: number = 'three';\n",
              "cart.py": "import os\n\n\ndef total():\n    return 1\n", ".gitignore": IGNORED})
    it.commit()
    it.salve("heal", "--", "tsc", "-p", ".", code=3, says=["cart.ts:1"])
    it.salve("heal", "--", "ruff", "check", "--no-cache", ".", code=3, says=["cart.py:1"])
    it.salve("heal", "--", "tsc", "-w", "-p", ".", code=2, says=["watches"], within=60)


def cargo_project(it):
    """Makes a small project of Cargo with a dependency inside the workspace."""
    it.write({"Cargo.toml": '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n'
                            '[dependencies]\nprices = { path = "prices" }\n',
              "src/lib.rs": "pub fn total(list: &[u32]) -> u32 {\n    list.iter().sum()\n}\n\n"
                            "#[cfg(test)]\nmod tests {\n    #[test]\n    fn total() {\n"
                            "        assert_eq!(super::total(&[1, 2]), 3);\n    }\n}\n",
              "prices/Cargo.toml": '[package]\nname = "prices"\nversion = "0.1.0"\nedition = "2021"\n',
              "prices/src/lib.rs": "", ".gitignore": IGNORED})
    it.sh("cargo generate-lockfile -q --offline")
    it.commit()


@story("cargo: a lockfile behind its manifest is brought into agreement where --locked says so")
def _(it):
    cargo_project(it)
    it.sh("sed -i 's/0.1.0/0.2.0/' prices/Cargo.toml")
    it.salve("heal", "--", "cargo", "test", "--locked", "--offline", says=["cargo.locked", "healed"])
    changed = it.sh("git status --porcelain --untracked-files=no").split()
    assert changed == ["M", "Cargo.lock", "M", "prices/Cargo.toml"], changed


@story("cargo: a red test and a mistake are told with their places")
def _(it):
    cargo_project(it)
    it.sh("sed -i 's/, 3);/, 4);/' src/lib.rs")
    it.salve("heal", "--", "cargo", "test", "--offline", code=3, says=["src/lib.rs:9"])
    it.sh("sed -i 's/list.iter().sum()/lost.iter().sum()/' src/lib.rs")
    it.salve("heal", "--", "cargo", "test", "--offline", code=3, says=["src/lib.rs:2"])


@story("pnpm workspace: packages missing, lockfile behind its manifest")
def _(it):
    it.write({"package.json": '{"name":"root","private":true,"packageManager":"pnpm@9.15.9",'
                              '"scripts":{"test":"pnpm -r test"}}',
              "pnpm-workspace.yaml": "packages:\n  - packages/*\n",
              "packages/a/package.json": '{"name":"a","version":"1.0.0","main":"index.js",'
                                         '"dependencies":{"ms":"2.1.3"}}',
              "packages/a/index.js": "module.exports = require('ms')('1s');\n",
              "packages/b/package.json": '{"name":"b","version":"1.0.0","scripts":{"test":'
                                         '"node test.js"},"dependencies":{"a":"workspace:*"}}',
              "packages/b/test.js": "require('assert').equal(require('a'), 1000);\n",
              ".gitignore": IGNORED})
    it.sh("pnpm install --silent")
    it.commit()
    it.salve("heal", "--", "pnpm", "test", says=["green"])
    it.sh("rm -rf node_modules packages/*/node_modules")
    it.salve("heal", "--", "pnpm", "test", says=["healed"], within=90)
    it.sh("rm -rf packages/a/node_modules")
    it.salve("heal", "--", "pnpm", "test", says=["healed"], within=90)
    it.unchanged()


@story("npm workspace: a package that has not been built")
def _(it):
    it.write({"package.json": '{"name":"root","private":true,"workspaces":["packages/*"],'
                              '"scripts":{"test":"node packages/b/test.js"}}',
              "packages/a/package.json": '{"name":"a","version":"1.0.0","main":"dist/index.js","scripts"'
                                         ':{"build":"mkdir -p dist && cp src.js dist/index.js"}}',
              "packages/a/src.js": "module.exports = 1;\n",
              "packages/b/package.json": '{"name":"b","version":"1.0.0","dependencies":{"a":"1.0.0"}}',
              "packages/b/test.js": "require('assert').equal(require('a'), 1);\n",
              ".gitignore": IGNORED})
    it.sh("npm install --no-audit --no-fund")
    it.commit()
    it.salve("heal", "--", "npm", "test", says=["healed"], within=60)
    it.sh("rm -rf node_modules")
    it.salve("heal", "--", "npm", "test", says=["healed"], within=60)
    it.unchanged()


@story("npm: a merge's markers in the lockfile are named, and npm install resolves them")
def _(it):
    it.write({"package.json": '{"name":"shop","version":"1.0.0","scripts":{"test":"node t.js"},'
                              '"dependencies":{"ms":"2.1.3"}}',
              "t.js": "require('ms')('1s');\n", ".gitignore": IGNORED})
    it.sh("npm install --no-audit --no-fund")
    name = "-c user.name=ada -c user.email=ada@example.com"
    it.commit()
    it.sh(f"git checkout -qb other && npm install --no-audit --no-fund is-odd && git {name} commit -qam o"
          f" && git checkout -q - && npm install --no-audit --no-fund has-flag && git {name} commit -qam t"
          f" && (git {name} merge other || true) && git checkout -q --ours package.json"
          " && rm -rf node_modules && grep -q '<<<<' package-lock.json")
    it.salve("heal", "--", "npm", "test", code=3, says=["markers of a merge conflict", "npm install"])
    it.sh("npm install --no-audit --no-fund && ! grep -q '<<<<' package-lock.json")


@story("node: a heap that is full is made larger for the run")
def _(it):
    it.write({"hungry.js": "const kept = [];\nfor (let i = 0; i < 700000; i++) "
                           "kept.push({ i, text: 'x' + i, list: [i, i, i] });\n"})
    it.commit()
    it.salve("heal", "--", "node", "hungry.js", env={"NODE_OPTIONS": "--max-old-space-size=48"},
             says=["memory.heap-larger", "healed", "set for this run only"])
    it.salve("heal", "--", "node", "--max-old-space-size=48", "hungry.js", code=3,
             says=["the command itself says how large it may be"])
    it.unchanged()


@story("three checks at once, one red: all run, and the red one counts")
def _(it):
    it.write({"salve.toml": "[checks.a]\ncommand = \"sh -c 'echo a'\"\n[checks.b]\ncommand = \"sh b.sh\"\n"
                            "[checks.c]\ncommand = \"sh -c 'echo c'\"\n",
              "b.sh": "echo 'AssertionError: b'; exit 1\n"})
    it.commit()
    it.salve("heal", code=3, says=["`a` in", "`c` in", "`b`", "AssertionError: b"])


@story("bad input: each is an error that says what to do")
def _(it):
    it.write({"x.sh": "echo hi\n", "ok.sh": "echo ok\n"})
    it.commit()
    it.salve("heal", "--", "pytst", code=2, says=["cannot start `pytst`"], within=10)
    it.salve("heal", "--", "./x.sh", code=3, says=["chmod u+x"], within=30)
    it.salve("hael", code=2, says=["heal"], within=10)
    it.write({"salve.toml": "[cheks.a]\ncommand = 'true'\n"})
    it.salve("heal", code=2, says=["checks"], within=10)
    it.write({"salve.toml": "[checks.a\n"})
    it.salve("heal", code=2, says=["salve.toml:1"], within=10)
    it.sh("rm salve.toml; mkfifo package.json")
    it.salve("heal", "--", "sh", "ok.sh", says=["green"], within=20)


@story("node: half of node_modules is gone, and links to programs lead nowhere")
def _(it):
    it.write({"package.json": '{"name":"shop","version":"1.0.0","scripts":{"test":"mocha t.js"},'
                              '"devDependencies":{"mocha":"10.7.3"}}',
              "t.js": "it('a', () => {});\n", ".gitignore": IGNORED})
    it.sh("npm install --no-audit --no-fund")
    it.commit()
    it.sh("rm -rf node_modules/[g-n]*")
    it.salve("heal", "--", "npm", "test", says=["healed"], never=["No declared package"], within=90)
    it.unchanged()


@story("node: a package that the user linked from elsewhere stays linked")
def _(it):
    it.write({"package.json": '{"name":"shop","version":"1.0.0","scripts":{"test":"node t.js"},'
                              '"dependencies":{"ms":"2.1.3"}}',
              "t.js": "require('ms')('1s');\nrequire('mine');\n", ".gitignore": IGNORED})
    it.sh("npm install --no-audit --no-fund; mkdir ../mine; echo 'module.exports = 1' > ../mine/index.js;"
          " ln -s ../../mine node_modules/mine")
    it.commit()
    it.sh("rm -rf node_modules/ms")
    it.salve("heal", "--", "npm", "test", says=["healed"], within=90)
    assert it.sh("readlink node_modules/mine").strip() == "../../mine"
    it.unchanged()


@story("jest and vitest: a new snapshot is written as without Salve")
def _(it):
    it.write({"package.json": '{"name":"shop","version":"1.0.0","type":"module","devDependencies":'
                              '{"vitest":"3.2.4","jest":"29.7.0"}}',
              "one.test.js": "import { expect, test } from 'vitest';\ntest('a', () => { "
                             "expect({ v: 1 }).toMatchSnapshot(); });\n",
              "jest/one.jest.cjs": "test('a', () => { expect({ v: 1 }).toMatchSnapshot(); });\n",
              ".gitignore": IGNORED})
    it.sh("npm install --no-audit --no-fund")
    it.commit()
    it.salve("heal", "--", "npx", "vitest", "run", says=["check.ci", "set for this run only: CI="])
    it.salve("heal", "--", "npx", "jest", "--testMatch", "**/*.jest.cjs", says=["check.ci"])
    it.sh("sed -i 's/v: 1/v: 2/' one.test.js")
    it.salve("heal", "--", "npx", "vitest", "run", code=3, says=["The test fails"], never=["check.ci"])


@story("node: an assertion about an error is a failing test, not that error")
def _(it):
    it.write({"t.js": "require('assert').strictEqual(require('./m')(), "
                      "'listen EADDRINUSE: address already in use 127.0.0.1:1');\n",
              "m.js": "module.exports = () => 'ENOSPC: no space left on device';\n"})
    it.commit()
    it.salve("heal", "--", "node", "t.js", code=3, says=["The test fails", "t.js:1"],
             never=["Port 1", "No space left on some"])


@story("eslint: a finding is told with its file")
def _(it):
    it.write({"package.json": '{"name":"shop","version":"1.0.0","type":"module","devDependencies":'
                              '{"eslint":"9.12.0"}}',
              "eslint.config.js": "export default [{ rules: { 'no-undef': 'error' } }];\n",
              "src/a.js": "\ntotl(1);\n", ".gitignore": IGNORED})
    it.sh("npm install --no-audit --no-fund")
    it.commit()
    it.salve("heal", "--", "npx", "eslint", "src", code=3, says=["src/a.js:2"])


@story("yarn: a lockfile with markers of a merge is not rewritten")
def _(it):
    it.write({"package.json": '{"name":"shop","version":"1.0.0","dependencies":{"ms":"2.1.2"}}',
              ".gitignore": IGNORED})
    it.sh("yarn install --silent && printf '<<<<<<< HEAD\nx\n=======\ny\n>>>>>>> b\n' >> yarn.lock")
    it.commit()
    it.salve("heal", "--", "yarn", "install", "--frozen-lockfile", code=3, says=["yarn.lock", "merge conflict"])
    it.unchanged()


@story("npm: damaged build output is built again; a deleted lockfile is named with git restore")
def _(it):
    it.write({"package.json": '{"name":"shop","version":"1.0.0","scripts":{"test":"node dist/cli.js",'
                              '"build":"mkdir -p dist && cp src/cli.js dist/cli.js"}}',
              "src/cli.js": "console.log(1);\n", ".gitignore": IGNORED})
    it.sh("npm install --no-audit --no-fund --package-lock-only; npm run build")
    it.commit()
    it.sh("echo 'console.log(((' > dist/cli.js")
    it.salve("heal", "--", "npm", "test", says=["node.build-output-damaged", "healed"])
    it.sh("rm package-lock.json")
    it.salve("heal", "--", "npm", "ci", code=3, says=["git restore package-lock.json"])


@story("scripts and submodules: told by what is wrong with them")
def _(it):
    it.sh("git init -q ../lib && cd ../lib && echo 'int seven(void);' > seven.h && git add -A && "
          "git -c user.name=ada -c user.email=ada@example.com commit -qm one")
    it.sh("git init -q .")
    it.sh("git -c protocol.file.allow=always submodule add -q ../lib vendor/lib")
    it.write({"Makefile": "test:\n\tcc -Ivendor/lib -c t.c -o t.o\n",
              "t.c": '#include "seven.h"\n', "run.sh": "#!/bin/sh\r\necho ok\r\n"})
    it.sh("chmod +x run.sh")
    it.commit()
    it.sh("git submodule deinit -q -f vendor/lib")
    it.salve("heal", "--", "make", "test", code=3, says=["git submodule update"])
    it.salve("heal", "--", "./run.sh", code=3, says=["Windows line ends"], never=["Permission denied"])


@story("python: a missing argument is no variable of the environment")
def _(it):
    it.write({"a.py": "def f(user_id):\n    pass\n\n\nf()\n"})
    it.commit()
    it.salve("heal", "--", "python3", "a.py", code=3, says=["a.py:5"], never=["variable"])


@story("go test: green, red, a mistake, and a go.sum that lacks a module")
def _(it):
    it.write({"go.mod": "module shop\n\ngo 1.21\n", ".gitignore": "",
              "cart.go": "package shop\n\nfunc Total(a, b int) int { return a + b }\n",
              "cart_test.go": "package shop\n\nimport \"testing\"\n\nfunc TestTotal(t *testing.T) {\n"
                              "\tif got := Total(1, 2); got != 3 {\n\t\tt.Errorf(\"got %d, want 3\", got)\n\t}\n}\n"})
    it.commit()
    it.salve("heal", "--", "go", "test", "./...", says=["green"], within=90)
    it.sh("sed -i 's/a + b/a - b/' cart.go")
    it.salve("heal", "--", "go", "test", "./...", code=3, says=["cart_test.go:7"], within=60)
    it.sh("sed -i 's/a - b/a + c/' cart.go")
    it.salve("heal", "--", "go", "vet", "./...", code=3, says=["cart.go:3"], within=60)
    version = "../proxy/acme.test/kit/@v"
    it.write({"../z/acme.test/kit@v1.0.0/go.mod": "module acme.test/kit\n\ngo 1.21\n",
              "../z/acme.test/kit@v1.0.0/kit.go": "package kit\n\nfunc Seven() int { return 7 }\n",
              f"{version}/v1.0.0.mod": "module acme.test/kit\n\ngo 1.21\n", f"{version}/list": "v1.0.0\n",
              f"{version}/v1.0.0.info": '{"Version":"v1.0.0"}', "go.sum": "",
              "go.mod": "module shop\n\ngo 1.21\n\nrequire acme.test/kit v1.0.0\n",
              "cart.go": "package shop\n\nimport \"acme.test/kit\"\n\n"
                         "func Total(a, b int) int { return a + b + kit.Seven() - 7 }\n"})
    it.sh("cd ../z && python3 -c 'import zipfile as z; o = z.ZipFile(\"../proxy/acme.test/kit/@v/v1.0.0.zip\","
          " \"w\"); [o.write(\"acme.test/kit@v1.0.0/\" + n) for n in (\"go.mod\", \"kit.go\")]'")
    it.commit()
    proxy = (it.base / "proxy").as_uri()
    env = {"GOPROXY": proxy, "GOSUMDB": "off", "GOFLAGS": "", "GOMODCACHE": str(it.base / "modules")}
    it.salve("heal", "--", "go", "test", "./...", env=env, says=["go.sum", "healed"], within=90)
    assert it.sh("git status --porcelain --untracked-files=no").split() == ["M", "go.sum"]
