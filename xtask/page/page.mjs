// The page in a real browser. `cargo xtask page` runs it: SALVE is the program, CHROMIUM the browser.
// Each test waits for a state, never for a time; what fails leaves a screenshot beside this file.
import { chromium } from 'playwright-core';
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
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

function environment() {
  const home = path.join(root, 'home');
  // Shorter than the defaults, so that the tests are.
  const times = { REPAIR_BASE_DELAY_MS: '200', SALVE_SERVER_HEALTH_SOAK_MS: '500', SALVE_SERVER_FLAP_WINDOW_MS: '1000' };
  return { ...process.env, ...times, HOME: home, XDG_DATA_HOME: path.join(home, 'data'), XDG_CONFIG_HOME: path.join(home, 'config'), SALVE_USER: 'ada' };
}

function start(args, stream = 'stderr') {
  const child = spawn(process.env.SALVE, args, { cwd: shop, env: environment(), stdio: ['ignore', 'pipe', 'pipe'] });
  children.add(child);
  child.on('exit', () => children.delete(child));
  child.lines = readline.createInterface({ input: child[stream] });
  child[stream === 'stderr' ? 'stdout' : 'stderr'].resume();
  return child;
}

function ended(child) {
  return new Promise((done) => (child.exitCode === null ? child.on('exit', done) : done(child.exitCode)));
}

async function serve(port) {
  const child = start(['serve', '.', '--json', '--no-open', '--port', String(port)], 'stdout');
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
  const git = (...args) => execFileSync('git', ['-c', 'user.name=ada', '-c', 'user.email=ada@localhost', ...args], { cwd: shop });
  git('init', '-q');
  git('add', '-A');
  git('commit', '-qm', 'the shop');
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

const phone = { viewport: { width: 380, height: 780 }, colorScheme: 'dark', hasTouch: true, isMobile: true };

// Has a demo ask whether a command may run, and sees it run once `approve` has said yes.
async function approved(browser, options, approve) {
  const demo = start(['demo', 'your-word', '--no-open', '--json']);
  let facts = '';
  demo.stdout.on('data', (text) => { facts += text; });
  let link;
  for await (const line of demo.lines) if ((link = line.match(/watch it at (\S+)/)?.[1])) break;
  demo.stderr.resume();
  const page = await open(browser, link, options);
  await page.goto(new URL('/needs-you', link).href);
  await page.waitForSelector('.question pre.command:has-text("touch cache-ok")');
  await check(page, 'a question');
  await approve(page);
  assert.equal(await ended(demo), 0);
  const [scene] = facts.split('\n').filter((line) => line.includes('your-word')).map((line) => JSON.parse(line));
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
  async 'after a restart of the server the page goes on'(browser, state) {
    const { page, served } = state;
    await page.goto(served.url);
    await page.waitForSelector('.card:has(b:text-is("web")) .badge:text-is("up")');
    await page.evaluate(() => {
      window.said = [];
      const note = (changes) => changes.forEach((one) => one.addedNodes.forEach((node) => window.said.push(node.querySelector('a').textContent)));
      new MutationObserver(note).observe(document.getElementById('toasts'), { childList: true });
    });
    served.child.kill();
    await ended(served.child);
    await page.waitForSelector('#connection:not([hidden])');
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
    return approved(browser, {}, async (page) => {
      for (const key of ['j', 'a', 'Enter']) await page.keyboard.press(key);
    });
  },
  async 'and with a thumb on a phone in the dark'(browser) {
    return approved(browser, phone, (page) => page.tap('.question button.yes'));
  },
};

layOut();
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: browserArguments() });
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
