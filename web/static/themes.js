// The button that chooses between the system's theme, light and dark.
const choices = ['auto', 'light', 'dark'];
const html = document.documentElement;
const button = document.getElementById('theme');

function show() {
  button.textContent = `Theme: ${html.dataset.theme ?? 'auto'}`;
}

export function nextTheme() {
  const theme = choices[(choices.indexOf(html.dataset.theme ?? 'auto') + 1) % choices.length];
  if (theme === 'auto') delete html.dataset.theme;
  else html.dataset.theme = theme;
  try {
    localStorage.setItem('postrider.theme', theme);
  } catch {
    // Not remembered, still applied.
  }
  show();
}

export function themes() {
  button.addEventListener('click', nextTheme);
  show();
}
