// Follow the theme chosen in Airflow, or else that of the system; record whether the page is framed.
const root = document.documentElement;
const applyTheme = () => {
  const chosen = localStorage.getItem("theme");
  root.dataset.theme = ["light", "dark"].includes(chosen) ? chosen : "system";
};
applyTheme();
addEventListener("storage", applyTheme);
root.dataset.framed = window.self !== window.top;

// In a frame, open links to Airflow's own pages in Airflow, which the frame itself may not do.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[target=_top]");
  if (!link || window.self === window.top || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const outer = parent.document.createElement("a");
  outer.href = link.href;
  outer.click();
});
