// Keeps the page current. The server renders; this module fetches the very
// address it is on and patches what differs, so that the focus, the selection,
// the scroll position and an opened <details> survive. A page says by data-every
// how many seconds lie between two updates; without it, it stays as it is.
import { patch } from './patch.js';

const POLL_MS = 2000;
const SLOWEST_POLL_MS = 30000;
const RECONNECT_STREAM_MS = 30000;
const QUIET_STREAM_MS = 10000;

const root = new URL('..', import.meta.url);
const link = document.getElementById('link');

let source = null; // the stream that is open or opening
let streaming = false;
let pollTimer = 0;
let reopenTimer = 0;
let failures = 0;
let refreshing = false;
let again = false;
let held = false;
let snapshots = 0;

const live = () => document.querySelector('[data-live]');
const every = () => Number(live()?.dataset.every ?? 0);
// What is selected must not slip away under the hand.
const selecting = () => live()?.querySelector('[data-row]') && live().querySelector('.pick input[name]:checked');
// What a button does must not change under a reason that is being written.
const writing = () => [...(live()?.querySelectorAll('form[method=post] :is(input:not([type=hidden]), textarea)') ?? [])]
  .some((field) => field === document.activeElement || field.value !== field.defaultValue);

function say(text, bad = false) {
  if (link.textContent !== text) link.textContent = text;
  link.classList.toggle('late', bad);
}

async function refresh() {
  if (refreshing) {
    again = true;
    return;
  }
  if (held) return;
  if (selecting() || writing()) {
    say(writing() ? 'waiting: a form is being filled in' : 'waiting: messages are selected');
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
    const found = next.querySelector('[data-live]');
    if (!found) throw new Error(`unexpected answer ${response.status}`);
    if (found.hasAttribute('data-failed')) throw new Error(found.querySelector('h1')?.textContent ?? 'failed');
    // A list that was not searched to the end of its page does not follow what
    // happens; the next one may.
    if (!found.dataset.every) throw new Error('looking takes long');
    if (held || selecting() || writing()) return;
    patch(live(), found);
    // The counts stand above the filter, which is the reader's.
    const states = document.getElementById('states');
    if (states) patch(states, next.getElementById('states'));
    failures = 0;
    if (live().querySelector('#trouble')) say('old numbers', true); // the server answers, its database does not
    else say(streaming ? 'live' : 'polling');
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

// poll refreshes after a while, and goes on with that. One timer runs as long as
// the page is followed. Each snapshot sets it anew, so that with a stream it goes
// off only when that has been silent.
function poll() {
  clearTimeout(pollTimer);
  const wait = Math.min(Math.max(POLL_MS, every() * 1000) * 2 ** failures, SLOWEST_POLL_MS);
  pollTimer = setTimeout(async () => {
    streaming = false;
    await refresh();
    if (source && !streaming) poll();
  }, streaming ? QUIET_STREAM_MS : wait);
}

// The stream only says that a newer snapshot exists. When it cannot be had
// (too many tabs, a proxy that holds it back) or says nothing (the database is
// away) polling takes its place.
function open() {
  close();
  const opened = new EventSource(new URL('api/v1/events', root));
  opened.addEventListener('snapshot', () => {
    streaming = true;
    poll();
    if (snapshots++ % every() === 0) refresh();
  });
  opened.addEventListener('error', () => {
    if (streaming) { // else the timer runs already; this comes with every attempt
      streaming = false;
      poll();
    }
    if (opened.readyState === EventSource.CLOSED) {
      clearTimeout(reopenTimer);
      reopenTimer = setTimeout(open, RECONNECT_STREAM_MS);
    }
  });
  source = opened;
  poll();
}

function close() {
  clearTimeout(pollTimer);
  clearTimeout(reopenTimer);
  source?.close();
  source = null;
  streaming = false;
}

// hold stops the updates, and starts them when they are stopped.
export function hold() {
  if (!every()) return;
  held = !held;
  if (held) {
    close();
    say('held: press p to go on');
    return;
  }
  refresh();
  open();
}

export function start() {
  if (!every()) return;
  // A hidden tab costs nothing.
  document.addEventListener('visibilitychange', () => {
    if (held) return;
    if (document.hidden) {
      close();
    } else {
      refresh();
      open();
    }
  });
  addEventListener('pagehide', close);
  addEventListener('pageshow', (event) => {
    if (event.persisted && !held) open();
  });
  if (!document.hidden) open();
}
