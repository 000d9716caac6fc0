// A list whose filter few messages pass comes in pieces: the server looks for a
// moment and says where it stands. While the tab is visible, this module goes on
// from there until the page has its rows, adding what is found. It stops after
// MOST pieces; the link goes on.
const PAUSE_MS = 250;
const MOST = 100;
const ROWS = 50;

const live = () => document.querySelector('[data-live]');
const line = () => live()?.querySelector('[data-search-down]');
const rows = (from) => [...from.querySelectorAll('table.messages tbody tr')];
const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

function visible() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    document.addEventListener('visibilitychange', resolve, { once: true });
  }).then(visible);
}

async function piece(address) {
  const response = await fetch(address, {
    headers: { Accept: 'text/html' },
    cache: 'no-store',
    signal: AbortSignal.timeout(15000),
  });
  const page = new DOMParser().parseFromString(await response.text(), 'text/html');
  const found = page.querySelector('[data-live]');
  if (!response.ok || !found) throw new Error(`unexpected answer ${response.status}`);
  return found;
}

// add puts a piece behind what is there. The address of newer messages stays the
// one of the beginning.
function add(found) {
  const here = live();
  const table = here.querySelector('table.messages tbody');
  if (!table) {
    here.replaceChildren(...[...found.childNodes].map((node) => document.importNode(node, true)));
    return;
  }
  for (const row of rows(found)) {
    if (!document.getElementById(row.id)) table.append(document.importNode(row, true));
  }
  const [pager, next] = [here.querySelector('.pager'), found.querySelector('.pager')];
  const newer = pager.firstElementChild;
  pager.replaceChildren(newer, ...[...next.children].slice(1).map((node) => document.importNode(node, true)));
}

export async function search() {
  for (let n = 0; n < MOST && line(); n += 1) {
    if (rows(live()).length >= ROWS) return;
    const link = line().querySelector('[data-search-on]');
    link.textContent = 'Searching on…';
    await pause(PAUSE_MS);
    await visible();
    try {
      add(await piece(link.href));
    } catch (error) {
      link.textContent = `Search on (${error.message})`;
      return;
    }
  }
}
