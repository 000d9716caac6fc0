// Keeps the page current. The server renders; this module fetches the very
// address it is on and patches what differs, so that the focus, the selection,
// the scroll position and an opened <details> survive.
import { patch } from './patch.js';

const POLL_MS = 2000;
const SLOWEST_POLL_MS = 30000;
const RECONNECT_STREAM_MS = 30000;

const root = new URL('..', import.meta.url);
const link = document.getElementById('link');

let stream = null;
let pollTimer = 0;
let reopenTimer = 0;
let failures = 0;
let refreshing = false;
let again = false;

function say(text, bad = false) {
  if (link.textContent !== text) link.textContent = text;
  link.classList.toggle('late', bad);
}

async function refresh() {
  if (refreshing) {
    again = true;
    return;
  }
  refreshing = true;
  try {
    const response = await fetch(location.href, {
      headers: { Accept: 'text/html' },
      cache: 'no-store',
      signal: AbortSignal.timeout(10000),
    });
    const next = new DOMParser().parseFromString(await response.text(), 'text/html');
    const live = next.querySelector('[data-live]');
    if (!live) throw new Error(`unexpected answer ${response.status}`);
    if (live.hasAttribute('data-failed')) throw new Error(live.querySelector('h1')?.textContent ?? 'failed');
    patch(document.querySelector('[data-live]'), live);
    document.title = next.title;
    failures = 0;
    say(stream ? 'live' : 'polling');
  } catch (error) {
    failures += 1;
    say(`not updating: ${error.message}`, true);
  } finally {
    refreshing = false;
    if (again) {
      again = false;
      refresh();
    }
  }
}

function poll() {
  clearTimeout(pollTimer);
  const wait = Math.min(POLL_MS * 2 ** failures, SLOWEST_POLL_MS);
  pollTimer = setTimeout(async () => {
    await refresh();
    if (!stream && !document.hidden) poll();
  }, wait);
}

// The stream only says that a newer snapshot exists. When it cannot be had
// (too many tabs, a proxy that holds it back) polling takes its place.
function open() {
  close();
  const source = new EventSource(new URL('api/v1/events', root));
  source.addEventListener('snapshot', () => {
    clearTimeout(pollTimer);
    stream = source;
    refresh();
  });
  source.addEventListener('error', () => {
    if (stream === source) stream = null;
    poll();
    if (source.readyState === EventSource.CLOSED) {
      clearTimeout(reopenTimer);
      reopenTimer = setTimeout(open, RECONNECT_STREAM_MS);
    }
  });
  current = source;
  poll();
}

let current = null;

function close() {
  clearTimeout(pollTimer);
  clearTimeout(reopenTimer);
  current?.close();
  current = null;
  stream = null;
}

// A hidden tab costs nothing.
document.addEventListener('visibilitychange', () => {
  if (document.hidden) {
    close();
  } else {
    refresh();
    open();
  }
});
addEventListener('pagehide', close);
addEventListener('pageshow', (event) => {
  if (event.persisted) open();
});

const themes = ['auto', 'light', 'dark'];
const button = document.getElementById('theme');
function showTheme() {
  button.textContent = `Theme: ${document.documentElement.dataset.theme ?? 'auto'}`;
}
button.addEventListener('click', () => {
  const html = document.documentElement;
  const theme = themes[(themes.indexOf(html.dataset.theme ?? 'auto') + 1) % themes.length];
  if (theme === 'auto') delete html.dataset.theme;
  else html.dataset.theme = theme;
  try {
    localStorage.setItem('postrider.theme', theme);
  } catch {
    // Not remembered, still applied.
  }
  showTheme();
});
showTheme();
button.hidden = false;

if (!document.hidden) open();
