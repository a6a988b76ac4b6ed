// Answers one question by the code behind '#': shows it, takes yes or no, and asks once more before it is sent.
const main = document.getElementById('main');
const code = location.hash.slice(1);
// The code stands neither in the history nor on a screen that somebody else looks at.
history.replaceState(null, '', location.pathname);

async function post(path, body) {
  const answer = await fetch(path, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ code, ...body }),
  });
  return { ok: answer.ok, text: await answer.text() };
}

function say(text) {
  const p = document.createElement('p');
  p.className = 'why';
  p.setAttribute('role', 'status');
  p.textContent = text;
  main.replaceChildren(p);
}

function problem(text) {
  try {
    const { detail, next } = JSON.parse(text);
    return next ? `${detail} (${next})` : detail;
  } catch {
    return 'Salve does not answer as it should.';
  }
}

main.addEventListener('click', async (event) => {
  const button = event.target.closest('button[data-answer]');
  if (!button) return;
  if (!button.dataset.sure) {
    for (const other of main.querySelectorAll('button[data-answer]')) other.hidden = other !== button;
    button.dataset.sure = 'asked';
    button.querySelector('b').textContent = `Tap again to ${button.dataset.answer}`;
    return;
  }
  button.disabled = true;
  try {
    const { ok, text } = await post('/api/answer-link/answer', { answer: button.dataset.answer });
    say(ok ? 'Your answer is written down. You can close this page.' : problem(text));
  } catch {
    button.disabled = false;
    button.querySelector('b').textContent = 'Salve cannot be reached; tap to try again';
  }
});

try {
  const { ok, text } = await post('/api/answer-link', {});
  if (ok) main.innerHTML = text;
  else say(problem(text));
} catch {
  say('Salve cannot be reached. Is it running?');
}
