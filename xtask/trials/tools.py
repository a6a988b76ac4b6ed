"""The real tools, installed by name below `target/`."""

import pathlib
import subprocess

VITE = {
    "package.json": """{
  "name": "app", "private": true, "version": "0.0.0", "type": "module",
  "scripts": { "dev": "vite" },
  "dependencies": { "react": "^19.1.0", "react-dom": "^19.1.0", "dayjs": "^1.11.0" },
  "devDependencies": { "@vitejs/plugin-react": "^5.0.0", "vite": "^7.0.0" }
}
""",
    "vite.config.js": "import { defineConfig } from 'vite'\nimport react from '@vitejs/plugin-react'\n"
    "export default defineConfig({ plugins: [react()] })\n",
    "index.html": '<div id="root"></div><script type="module" src="/src/main.jsx"></script>\n',
    "src/main.jsx": "import dayjs from 'dayjs'\nimport { createRoot } from 'react-dom/client'\n"
    "createRoot(document.getElementById('root')).render(<p>{dayjs().format()}</p>)\n",
}

NEXT = {
    "package.json": '{ "name": "app", "private": true, "scripts": { "dev": "next dev" },\n'
    '  "dependencies": { "next": "^15.0.0", "react": "^19.1.0", "react-dom": "^19.1.0" } }\n',
    "app/layout.js": "export default function Root({ children }) { return <html><body>{children}</body></html> }\n",
    "app/page.js": "export const dynamic = 'force-dynamic'\nexport default function Page() { return <p>hello</p> }\n",
}

WATCHED = {
    "package.json": """{
  "name": "app", "private": true, "type": "module",
  "scripts": { "dev": "nodemon --watch src src/index.mjs", "tsx": "tsx watch src/index.ts" },
  "dependencies": { "hono": "^4.6.0", "@hono/node-server": "^1.13.0" },
  "devDependencies": { "nodemon": "^3.1.0", "tsx": "^4.19.0" }
}
""",
    "src/index.mjs": "import http from 'node:http'\n"
    "const server = http.createServer((_, answer) => answer.end('hello'))\n"
    "server.listen(+process.env.PORT, () => console.log(`http://localhost:${process.env.PORT}`))\n",
    "src/index.ts": "import { serve } from '@hono/node-server'\nimport { Hono } from 'hono'\nconst app = new Hono()\n"
    "app.get('/', (c) => c.text('hello'))\n"
    "serve({ fetch: app.fetch, port: +process.env.PORT! }, (at) => console.log(`http://localhost:${at.port}`))\n",
}

PYTHON = ["flask", "uvicorn", "fastapi", "django"]


class Tools:
    """What the trials run, and where it is."""

    def __init__(self, salve, target):
        self.salve = pathlib.Path(salve)
        self.at = pathlib.Path(target)
        self.cache = self.at / "npm-cache"
        self.at.mkdir(parents=True, exist_ok=True)
        self.python = self.at / "python"
        self.django = self.python / "bin/django-admin"

    def vite(self):
        return self._node("vite", VITE)

    def watched(self):
        return self._node("watched", WATCHED)

    def next(self):
        return self._node("next", NEXT)

    def program(self, name):
        return str(self._venv() / "bin" / name)

    def _node(self, name, files):
        base = self.at / name
        if not (base / "ready").exists():
            for path, text in files.items():
                (base / path).parent.mkdir(parents=True, exist_ok=True)
                (base / path).write_text(text)
            npm = ["npm", "install", "--no-audit", "--no-fund", "--cache", str(self.cache)]
            subprocess.run(npm, cwd=base, check=True, capture_output=True)
            (base / "ready").write_text("")
        return base

    def _venv(self):
        if not (self.python / "ready").exists():
            subprocess.run(["python3", "-m", "venv", str(self.python)], check=True)
            subprocess.run([str(self.python / "bin/pip"), "install", "-q", *PYTHON], check=True)
            (self.python / "ready").write_text("")
        return self.python
