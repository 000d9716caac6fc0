// The keyboard: single keys, outside of fields, which can be switched off.
import { hold } from './live.js';
import { nextTheme } from './themes.js';

const dialog = document.getElementById('keys');
const enabled = document.getElementById('keys-on');

const follow = (selector) => document.querySelector(selector)?.click();
const rows = () => [...document.querySelectorAll('[data-row]')];

function step(by) {
  const list = rows();
  if (list.length === 0) return;
  const at = list.findIndex((link) => link === document.activeElement || link.closest('tr')?.contains(document.activeElement));
  const next = at < 0 ? (by > 0 ? 0 : list.length - 1) : Math.min(Math.max(at + by, 0), list.length - 1);
  list[next].focus();
}

function pick() {
  document.activeElement?.closest('tr')?.querySelector('.pick input[name]')?.click();
}

function dead() {
  const messages = document.querySelector('[data-key="m"]');
  if (messages) location.assign(`${messages.href}?state=dead`);
}

function help() {
  if (dialog.open) dialog.close();
  else dialog.showModal();
}

const actions = new Map([
  ['g', () => follow('[data-key="g"]')],
  ['y', () => follow('[data-key="y"]')],
  ['m', () => follow('[data-key="m"]')],
  ['r', () => follow('[data-key="r"]')],
  ['a', () => follow('[data-key="a"]')],
  ['d', dead],
  ['/', () => document.querySelector('[data-search]')?.focus()],
  ['j', () => step(1)],
  ['k', () => step(-1)],
  ['x', pick],
  ['n', () => follow('[data-newer]')],
  ['o', () => follow('[data-older]')],
  ['p', hold],
  ['t', nextTheme],
  ['?', help],
]);

function typing(element) {
  return element.isContentEditable || element.matches('textarea, select, input:not([type=checkbox])');
}

export function listen() {
  try {
    enabled.checked = localStorage.getItem('postrider.keys') !== 'off';
  } catch {
    // Not remembered; they are on.
  }
  enabled.addEventListener('change', () => {
    try {
      localStorage.setItem('postrider.keys', enabled.checked ? 'on' : 'off');
    } catch {
      // Not remembered, still applied.
    }
  });
  document.getElementById('help').addEventListener('click', help);
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !enabled.checked || typing(event.target)) return;
    if (dialog.open && event.key !== '?') return;
    const action = actions.get(event.key);
    if (!action) return;
    event.preventDefault();
    action();
  });
}
