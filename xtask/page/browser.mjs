// How Chromium is started: without a sandbox where root starts it, and without asking anybody else.
export function browserArguments() {
  const quiet = ['--disable-background-networking', '--disable-component-update', '--disable-quic', '--disable-sync', '--no-first-run'];
  return process.getuid?.() === 0 ? ['--no-sandbox', ...quiet] : quiet;
}

// How much a page loads to show what it shows: its frame, all that this names, and its section.
export function bytesOf(page) {
  return page.evaluate(async () => {
    const named = [...document.querySelectorAll('head [src], head link[href]')].map((node) => node.src ?? node.href);
    const sizes = await Promise.all([location.href, ...named].map(async (url) => (await (await fetch(url)).blob()).size));
    return sizes.reduce((sum, size) => sum + size, document.querySelector('main').innerHTML.length);
  });
}
