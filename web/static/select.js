// The box that selects every message on the page, and the count of the selected.
// Rows come and go while the page updates, so nothing is remembered here.
const boxes = () => [...document.querySelectorAll('#selection .pick input[name]')];

function count() {
  const all = boxes();
  const chosen = all.filter((box) => box.checked).length;
  const head = document.querySelector('[data-select-all]');
  if (head) {
    head.checked = chosen > 0 && chosen === all.length;
    head.indeterminate = chosen > 0 && chosen < all.length;
  }
  const told = document.querySelector('[data-selected]');
  if (told) told.textContent = chosen === 0 ? '' : `${chosen} selected`;
}

export function selection() {
  document.addEventListener('change', (event) => {
    if (event.target.matches('[data-select-all]')) {
      for (const box of boxes()) box.checked = event.target.checked;
    }
    if (event.target.closest('#selection')) count();
  });
  // Browsers restore boxes when one comes back to a page.
  addEventListener('pageshow', count);
  count();
}
