// The page in a real browser. `cargo xtask page` runs it: SALVE is the program, CHROMIUM the browser.
// Each test waits for a state, never for a time; what fails leaves a screenshot beside this file.
import { chromium } from 'playwright-core';
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { createRequire } from 'node:module';
import { browserArguments, bytesOf } from './browser.mjs';

const LONG = 60_000;
const SECTIONS = ['/', '/needs-you', '/incidents', '/jobs', '/logs', '/memory', '/statistics', '/settings'];
const axe = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const root = fs.mkdtempSync(path.join(os.tmpdir(), 'salve-page-'));
const shop = path.join(root, 'shop');
const children = new Set();

// ---- A project, and the real program in it.

function environment(home = path.join(root, 'home')) {
  // Shorter than the defaults, so that the tests are.
  const times = { REPAIR_BASE_DELAY_MS: '200', SALVE_SERVER_HEALTH_SOAK_MS: '500', SALVE_SERVER_FLAP_WINDOW_MS: '1000' };
  return { ...process.env, ...times, HOME: home, XDG_DATA_HOME: path.join(home, 'data'), XDG_CONFIG_HOME: path.join(home, 'config'), SALVE_USER: 'ada' };
}

function start(args, stream = 'stderr', cwd = shop, home = undefined) {
  const child = spawn(process.env.SALVE, args, { cwd, env: environment(home), stdio: ['ignore', 'pipe', 'pipe'] });
  children.add(child);
  child.on('exit', () => children.delete(child));
  child.lines = readline.createInterface({ input: child[stream] });
  child[stream === 'stderr' ? 'stdout' : 'stderr'].resume();
  return child;
}

function ended(child) {
  return new Promise((done) => (child.exitCode === null ? child.on('exit', done) : done(child.exitCode)));
}

async function serve(port, cwd = shop, home = undefined) {
  const child = start(['serve', '.', '--json', '--no-open', '--port', String(port)], 'stdout', cwd, home);
  for await (const line of child.lines) return { child, ...JSON.parse(line) };
  throw new Error('the page is not served');
}

function layOut() {
  fs.mkdirSync(shop, { recursive: true });
  fs.mkdirSync(path.join(root, 'home'));
  // It crashes once, when it is told to.
  fs.writeFileSync(path.join(shop, 'server.sh'), `echo ready
while :; do
  if test -f crash; then rm crash; echo 'Error: the worker pool was lost' >&2; exit 1; fi
  sleep 0.1
done
`);
  // Its page includes the script that reports what fails in it, from wherever that is served.
  fs.writeFileSync(path.join(shop, 'app.mjs'), `import http from 'node:http';
import fs from 'node:fs';
http.createServer((request, response) => {
  if (fs.existsSync('crash-app')) { fs.rmSync('crash-app'); throw new Error('the cart was lost'); }
  response.setHeader('content-type', 'text/html');
  response.end(\`<!doctype html><title>cart</title><h1>Cart</h1><script src="\${fs.readFileSync('page-url')}salve.js"></script>\`);
}).listen(0, '127.0.0.1', function () { console.log('ready on http://127.0.0.1:' + this.address().port + '/'); });
`);
  fs.writeFileSync(path.join(shop, 'salve.toml'), `[servers.web]\ncommand = "sh server.sh"\n\n[servers.app]\ncommand = "${process.execPath} app.mjs"\n`);
  fs.writeFileSync(path.join(shop, '.gitignore'), 'crash\ncrash-app\npage-url\n');
  commit(shop);
}

function commit(dir) {
  const git = (...args) => execFileSync('git', ['-c', 'user.name=ada', '-c', 'user.email=ada@localhost', ...args], { cwd: dir });
  git('init', '-q');
  git('add', '-A');
  git('commit', '-qm', 'first');
}

function listening(server) {
  return new Promise((done) => server.listen(0, '127.0.0.1', () => done(server.address().port)));
}

// Returns a port that is free now.
async function freePort() {
  const server = net.createServer();
  const port = await listening(server);
  await new Promise((done) => server.close(done));
  return port;
}

// A loop whose tests cannot start, in a project that tells `hook` of questions and is reached at `url`.
function layOutLoop(dir, url, hook) {
  fs.mkdirSync(path.join(dir, 'loop'), { recursive: true });
  fs.writeFileSync(path.join(dir, 'tests.sh'), "[ -f started ] || { echo 'cannot start: stale cache'; exit 1; }\n");
  fs.writeFileSync(path.join(dir, '.gitignore'), 'loop/\nstarted\n');
  fs.writeFileSync(path.join(dir, 'salve.toml'), `[page]\nurl = "${url}"\n[webhooks]\nallow_private = true\non_escalation = "${hook}"\n`);
  commit(dir);
  fs.writeFileSync(path.join(dir, 'loop/recovery.json'), JSON.stringify({
    version: 1, timestamp: new Date().toISOString(), category: 'dependency', severity: 'blocking',
    diagnosis: { error_pattern: 'cannot start', root_cause: 'a stale cache', evidence: ['test-output.txt:1'] },
    recovery: { command: 'touch started', expected_outcome: 'they start', confidence: 'high' },
  }));
}

// ---- A browser that keeps what the page complains about.

async function open(browser, link, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(LONG);
  page.complaints = [];
  page.on('pageerror', (error) => page.complaints.push(error.message));
  page.on('console', (message) => { if (message.type() === 'error') page.complaints.push(message.text()); });
  await page.goto(link);
  await page.waitForFunction(() => localStorage.getItem('salve-session') && document.querySelector('main h1'));
  assert.equal(new URL(page.url()).hash, '', 'the code is gone from the address');
  return page;
}

async function check(page, where) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run({ resultTypes: ['violations'] }));
  const bad = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  assert.deepEqual(bad.map(({ id, nodes }) => `${id}: ${nodes[0].html}`), [], `axe at ${where}`);
  // A phone makes room for what is too wide: what counts is the screen.
  const beyond = await page.evaluate((width) => document.documentElement.scrollWidth - width, page.viewportSize().width);
  assert.ok(beyond <= 0, `${where} is ${beyond} px wider than the screen`);
}

async function eachSection(page, look) {
  const origin = new URL(page.url()).origin;
  for (const section of SECTIONS) {
    await page.goto(origin + section);
    await page.waitForSelector('main h1');
    await look(section);
  }
}

// Plays a demo; returns it with the page that it serves, and what came of each of its scenes.
async function playDemo(...scene) {
  const demo = start(['demo', ...scene, '--no-open', '--json']);
  let facts = '';
  demo.stdout.on('data', (text) => { facts += text; });
  demo.scenes = () => facts.split('\n').filter((line) => line.includes('came_out')).map((line) => JSON.parse(line));
  for await (const line of demo.lines) {
    demo.dir ??= line.match(/^Salve demo {2}in (.+)/)?.[1];
    if ((demo.link = line.match(/watch it at (\S+)/)?.[1])) break;
  }
  demo.stderr.resume();
  return demo;
}

const phone = { viewport: { width: 380, height: 780 }, colorScheme: 'dark', hasTouch: true, isMobile: true };

// Has a demo ask whether a command may run, and sees it run once `approve` has said yes.
async function approved(demo, page, approve) {
  await page.goto(new URL('/needs-you', demo.link).href);
  await page.waitForSelector('.question pre.command:has-text("touch cache-ok")');
  await check(page, 'a question');
  await approve(page);
  assert.equal(await ended(demo), 0);
  const scene = demo.scenes().find(({ name }) => name === 'your-word');
  assert.equal(scene.healed, 1, 'the command ran and helped');
  // The page ended with its demo, and the browser said so.
  page.complaints = [];
  return page;
}

// ---- The tests, in the order in which a person would try things.

const tests = {
  async 'a server that crashes is seen to heal'(browser, state) {
    const page = await open(browser, state.served.link);
    await page.waitForSelector('.card:has-text("web") .badge:has-text("up")');
    fs.writeFileSync(path.join(shop, 'crash'), '');
    await page.waitForSelector('.toast:has-text("Dev server recovered!")');
    await page.waitForFunction(() => window.__canvasState?.repairStatus?.recentRepairs?.length > 0);
    await page.waitForSelector('.rows .badge:has-text("recovered")');
    state.page = page;
    return page;
  },
  async 'every section is accessible, fits, is small and complains about nothing'(browser, state) {
    await eachSection(state.page, async (section) => {
      await check(state.page, section);
      const bytes = await bytesOf(state.page);
      assert.ok(bytes > 10_000 && bytes < 150_000, `${section} takes ${bytes} bytes`);
    });
    return state.page;
  },
  async 'a page under development reports its errors and shows how its server is repaired'(browser, { page, served }) {
    await page.goto(served.url);
    const address = await page.getAttribute('.card:has(b:text-is("app")) a[target]', 'href');
    const app = await (await browser.newContext()).newPage();
    app.setDefaultTimeout(LONG);
    await app.goto(address);
    await app.waitForFunction(() => window.__canvasState?.repairStatus);
    await app.evaluate(() => setTimeout(() => { throw new Error('the total is not a number'); }));
    await page.waitForSelector('[aria-labelledby=browser] :text("the total is not a number")');
    fs.writeFileSync(path.join(shop, 'crash-app'), '');
    await app.evaluate(() => fetch('/').catch(() => {}));
    await app.waitForFunction(() => window.__canvasState.repairStatus.recentRepairs.some((one) => one.server === 'app' && one.state === 'recovered'));
    await app.context().close();
    return page;
  },
  async 'one incident is opened, replayed under other settings and exported'(browser, { page, served }) {
    await page.goto(`${served.url}incidents`);
    await page.click('.rows a:has-text("worker pool")');
    await page.waitForSelector('#timeline');
    await check(page, 'an incident');
    await page.click('#what-if summary');
    await page.fill('#what-if input[name=attempts]', '0');
    await page.click('#what-if button');
    await page.waitForSelector('#what-if-answer :text("exact up to here")');
    const [file] = await Promise.all([page.waitForEvent('download'), page.click('button:has-text("Export as HTML")')]);
    assert.match(fs.readFileSync(await file.path(), 'utf8'), /worker pool was lost/);
    return page;
  },
  async 'the keyboard leads everywhere'(browser, { page }) {
    await page.keyboard.press('1');
    await page.waitForSelector('nav a[aria-current]:has-text("Now")');
    await page.keyboard.press('6');
    await page.waitForSelector('h1:has-text("Memory")');
    await page.keyboard.press('3');
    await page.waitForSelector('h1:has-text("Incidents")');
    await page.waitForSelector('[data-item]');
    await page.keyboard.press('j');
    await page.waitForSelector('[data-item].at');
    await page.keyboard.press('/');
    assert.equal(await page.evaluate(() => document.activeElement.type), 'search');
    await page.keyboard.press('Tab');
    await page.locator('h1').click();
    await page.keyboard.press('?');
    await page.waitForSelector('dialog[open]');
    await page.keyboard.press('Escape');
    await page.waitForSelector('dialog', { state: 'hidden' });
    return page;
  },
  async 'a server that cannot show a section yet is quoted, and asked again'(browser, { page, served }) {
    const busy = { status: 503, contentType: 'application/problem+json', body: JSON.stringify({ detail: 'the journal is long or busy' }) };
    await page.route('**/live/**', (route) => route.fulfill(busy), { times: 1 });
    await page.goto(`${served.url}memory`);
    await page.waitForSelector('#connection:has-text("The server says: the journal is long or busy")');
    await page.waitForSelector('h1:has-text("Memory")');
    // The browser said so, too; that is no fault of the page.
    page.complaints = page.complaints.filter((text) => !/status of 503/.test(text));
    return page;
  },
  async 'after a restart of the server the page goes on'(browser, state) {
    const { page, served } = state;
    await page.goto(served.url);
    await page.waitForSelector('.card:has(b:text-is("web")) .badge:text-is("up")');
    await page.evaluate(() => {
      window.said = [];
      const note = (changes) => changes.forEach((one) => one.addedNodes.forEach((node) => window.said.push(node.firstElementChild.textContent)));
      new MutationObserver(note).observe(document.getElementById('toasts'), { childList: true });
    });
    served.child.kill();
    await ended(served.child);
    await page.waitForSelector('#connection:has-text("The connection is gone")');
    fs.writeFileSync(path.join(shop, 'crash'), '');
    while (fs.existsSync(path.join(shop, 'crash'))) await new Promise((done) => setTimeout(done, 20));
    state.served = await serve(new URL(served.url).port);
    await page.waitForSelector('#connection', { state: 'hidden' });
    await page.waitForSelector('.toast:has-text("Dev server recovered!")');
    // What happened while nobody served is told, and told once.
    const said = await page.evaluate(() => window.said);
    assert.equal(said.filter((text) => /^Dev server crashed|^Restart failed/.test(text)).length, 1, said.join('; '));
    assert.equal(new Set(said).size, said.length, said.join('; '));
    // While nobody served, the browser said so; that is no fault of the page.
    page.complaints = page.complaints.filter((text) => !/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET/.test(text));
    return page;
  },
  async 'a phone in the dark shows every section'(browser, state) {
    const link = execFileSync(process.env.SALVE, ['serve', '--link', '--port', new URL(state.served.url).port], { cwd: shop, env: environment() });
    const page = await open(browser, String(link).trim(), phone);
    const light = await page.evaluate(() => Number(getComputedStyle(document.body).backgroundColor.match(/\d+/)[0]));
    assert.ok(light < 60, `the background is ${light}`);
    await eachSection(page, (section) => check(page, `${section} on a phone`));
    return page;
  },
  async 'a command that waits runs once it is approved by keyboard'(browser) {
    const demo = await playDemo('your-word');
    const page = await open(browser, demo.link);
    return approved(demo, page, async () => {
      for (const key of ['j', 'a', 'Enter']) await page.keyboard.press(key);
    });
  },
  async 'and with a thumb on a phone in the dark, while a whole demo is played'(browser, state) {
    const demo = await playDemo();
    const page = await open(browser, demo.link, phone);
    await page.goto(new URL('/needs-you', demo.link).href);
    await page.waitForSelector('.question pre.command:has-text("touch cache-ok")', { timeout: 2 * LONG });
    // It goes with the demo; a copy shows what was left, with the home that its jobs were begun from.
    state.kept = path.join(root, 'kept');
    fs.cpSync(path.dirname(demo.dir), state.kept, { recursive: true, filter: (from) => !fs.lstatSync(from).isSocket() });
    return approved(demo, page, () => page.tap('.question:has-text("touch cache-ok") button.yes'));
  },
  async 'every section shows what a whole demo left, and does what its buttons say'(browser, state) {
    state.left = await serve(0, path.join(state.kept, 'shop'), path.join(state.kept, 'home'));
    const page = await open(browser, state.left.link);
    const at = (section) => page.goto(new URL(section, state.left.link).href);
    await eachSection(page, (section) => check(page, `${section} of the demo`));
    await at('/');
    await page.waitForSelector('h1:has-text("You are needed")');
    for (const word of ['Servers', 'Checks and tools', 'Jobs and loops']) await page.waitForSelector(`h2:has-text("${word}")`);
    await incidents(page, at);
    await memory(page, at);
    await statistics(page, at);
    await logs(page, at);
    await jobsAndSettings(page, at);
    state.signedIn = await page.context().storageState();
    return page;
  },
  async 'all of it fits a phone in the dark'(browser, { left, signedIn }) {
    const page = await open(browser, left.url, { ...phone, storageState: signedIn });
    await eachSection(page, (section) => check(page, `${section} of the demo on a phone`));
    for (const path of await incidentPaths(page)) {
      await page.goto(new URL(path, left.url).href);
      await page.waitForSelector('#timeline');
      await check(page, `${path} on a phone`);
    }
    return page;
  },
  async 'a question is answered from a phone by a link that is good once'(browser) {
    const told = [];
    const hook = http.createServer((request, response) => {
      let body = '';
      request.on('data', (text) => { body += text; }).on('end', () => { told.push(JSON.parse(body)); response.end(); });
    });
    const port = await freePort();
    const dir = path.join(root, 'afar');
    layOutLoop(dir, `http://box.example:${port}`, `http://127.0.0.1:${await listening(hook)}/`);
    const served = await serve(port, dir);
    const loop = start(['loop', 'attach', 'loop', '--loop', 'afar', '--once', '--', 'sh', 'tests.sh'], 'stderr', dir);
    while (!told.length) await new Promise((done) => setTimeout(done, 50));
    const link = told[0].data.links.answer;
    const page = await (await browser.newContext(phone)).newPage();
    page.complaints = [];
    page.on('pageerror', (error) => page.complaints.push(error.message));
    await page.goto(link);
    await page.waitForSelector('pre.command:text-is("touch started")');
    await page.waitForSelector('dd:text-is("a stale cache")');
    await check(page, 'the link of a question');
    await page.tap('button.yes');
    await page.waitForSelector('button:has-text("Tap again to approve")');
    assert.ok(!fs.existsSync(path.join(dir, 'started')), 'one tap is no answer');
    await page.tap('button.yes');
    await page.waitForSelector(':text("Your answer is written down")');
    assert.equal(await ended(loop), 0);
    assert.ok(fs.existsSync(path.join(dir, 'started')), 'the command ran');
    await page.reload();
    await page.waitForSelector(':text("used already")');
    served.child.kill();
    hook.close();
    return page;
  },
};

// ---- What the sections of a project with a history do.

async function incidentPaths(page) {
  await page.goto(new URL('/incidents', page.url()).href);
  await page.waitForSelector('.rows a.row');
  return page.$$eval('.rows a.row', (rows) => rows.map((row) => row.getAttribute('href')));
}

async function incidents(page, at) {
  const paths = await incidentPaths(page);
  assert.ok(paths.length >= 8, `${paths.length} incidents`);
  for (const path of paths) {
    await at(path);
    await page.waitForSelector('#timeline');
    await check(page, path);
  }
  await at('/incidents?q=discount');
  await page.click('.rows a.row');
  await page.waitForSelector('h2:has-text("What agents said, and what was measured")');
  await page.waitForSelector('.badge:has-text("not in your files")');
  // What healed a test is in the files, is taken back, and is given again.
  await at('/incidents?q=total');
  await page.click('.rows a.row');
  page.once('dialog', (dialog) => dialog.accept());
  await page.click('button:has-text("Undo the repair")');
  await page.waitForSelector('.toast:has-text("as before the repair")');
  await page.click('button:has-text("Take the undoing back")');
  await page.waitForSelector('button:has-text("Undo the repair")');
}

async function memory(page, at) {
  await at('/memory');
  await page.click('.paste summary');
  await page.fill('.paste textarea', "Error: ENOENT: no such file or directory, open 'dist/prices.txt'");
  await page.click('.paste button');
  await page.waitForSelector('#memory-answer code:text-is("sh build.sh")');
  const known = page.locator('article.card:has-text("dist/prices.txt")').first();
  await known.locator('summary:text-is("Change")').click();
  await known.locator('input[name=new]').fill('make prices');
  await known.locator('button:text-is("Teach")').click();
  await page.waitForSelector('.toast:has-text("Saved.")');
  await page.waitForSelector('.known-remedy code:text-is("make prices")');
  page.once('dialog', (dialog) => dialog.accept());
  await known.locator('button:text-is("Forget")').click();
  await page.waitForSelector('.known-remedy code:text-is("make prices")', { state: 'detached' });
}

async function statistics(page, at) {
  await at('/statistics?days=7');
  await page.waitForSelector('.tabs a[aria-current]:text-is("7 days")');
  await page.click('section:has(#days) summary');
  const [file] = await Promise.all([page.waitForEvent('download'), page.click('section:has(#days) button:text-is("CSV")')]);
  assert.match(fs.readFileSync(await file.path(), 'utf8'), /^from,incidents,recovered/);
}

async function logs(page, at) {
  await at('/');
  await page.click('.card a.button:text-is("Log")');
  await page.waitForSelector('pre.log span');
  await page.selectOption('select[name=show]', 'failures');
  await page.click('form.filter button');
  await page.waitForFunction(() => location.search.includes('show=failures'));
}

async function jobsAndSettings(page, at) {
  await at('/jobs');
  await page.waitForSelector('.steps li');
  page.once('dialog', (dialog) => dialog.accept());
  await page.locator('button:text-is("Resume from here")').first().click();
  await page.waitForSelector('.card :text("Ordered: resume_from_step by ada")');
  await at('/settings');
  await page.click('button:text-is("Send a test notice")');
  await page.waitForSelector('.toast:has-text("Nobody is told"), .toast:has-text("Delivered"), .toast:has-text("could not be reached")');
}

layOut();
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: [...browserArguments(), '--host-resolver-rules=MAP box.example 127.0.0.1'] });
const state = { served: await serve(0) };
fs.writeFileSync(path.join(shop, 'page-url'), state.served.url);
start(['dev']);
let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  const begun = Date.now();
  let problem;
  try {
    const page = await test(browser, state);
    assert.deepEqual(page.complaints, [], 'the console says nothing');
  } catch (error) {
    problem = error;
    failed += 1;
    const page = browser.contexts().at(-1)?.pages().at(-1);
    await page?.screenshot({ path: path.join(import.meta.dirname, 'failed.png'), timeout: 5_000 }).catch(() => {});
  }
  console.log(`${problem ? 'FAILED' : 'ok    '} ${name} (${((Date.now() - begun) / 1000).toFixed(1)} s)`);
  if (problem) console.log(`       ${problem.message}`);
}
await browser.close();
const all = [...children];
for (const child of all) child.kill('SIGINT');
await Promise.all(all.map(ended));
fs.rmSync(root, { recursive: true, force: true });
process.exit(failed ? 1 : 0);
