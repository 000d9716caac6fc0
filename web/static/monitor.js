// Starts what a page has: everything in it works without, more slowly.
import { start } from './live.js';
import { listen } from './keys.js';
import { search } from './search.js';
import { selection } from './select.js';
import { themes } from './themes.js';

// What an action left in the address is told once, not again when the page is
// loaded again.
function forgetFlash() {
  const address = new URL(location.href);
  if (!address.searchParams.has('done')) return;
  for (const name of ['done', 'n', 'waiting', 'gone']) address.searchParams.delete(name);
  history.replaceState(history.state, '', address);
}

forgetFlash();
themes();
selection();
listen();
start();
search();
