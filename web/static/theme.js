// Applies a remembered theme before the first paint, and shows what needs a script. It is an ordinary script,
// not a module, because modules run too late to prevent a flash.
(() => {
  document.documentElement.classList.add('scripted');
  try {
    const theme = localStorage.getItem('postrider.theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch {
    // Storage may be forbidden; the system's preference then decides.
  }
})();
