// What a person at a browser sees of the page at LINK; `cargo bench -p salve --bench page browser`.
import { chromium } from 'playwright-core';
import { browserArguments, bytesOf } from './browser.mjs';

const WATCHED = 10_000;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: browserArguments() });
const page = await (await browser.newContext({ viewport: { width: 1100, height: 800 } })).newPage();
await page.goto(process.env.LINK);
await page.waitForSelector('main h1');
// Once more, as somebody opens it who is signed in already.
await page.reload();
await page.waitForSelector('main h1');
const painted = await page.evaluate(() => {
  const [navigation] = performance.getEntriesByType('navigation');
  const paint = performance.getEntriesByName('first-contentful-paint')[0];
  return paint.startTime - navigation.responseStart;
});
console.log(`browser: first paint ${painted.toFixed(0)} ms after the answer (limit 100); ${(await bytesOf(page) / 1e3).toFixed(0)} KB in all (limit 150)`);
for (const section of ['/', '/incidents', '/statistics']) {
  await page.goto(new URL(section, process.env.LINK).href);
  await page.waitForSelector('main h1');
  const frames = await page.evaluate((watched) => new Promise((done) => {
    const gaps = [];
    const begun = performance.now();
    let last = begun;
    const next = (now) => {
      gaps.push(now - last);
      last = now;
      if (now - begun < watched) requestAnimationFrame(next);
      else done(gaps.sort((one, other) => one - other));
    };
    requestAnimationFrame(next);
  }), WATCHED / 2);
  const at = (share) => frames[Math.floor((frames.length - 1) * share)].toFixed(0);
  console.log(`browser: ${section} draws a frame every ${at(0.5)} ms, p99 ${at(0.99)} ms, worst ${at(1)} ms`);
}
await browser.close();
