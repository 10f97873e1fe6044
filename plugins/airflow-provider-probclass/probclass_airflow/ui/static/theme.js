// Follow the theme chosen in Airflow, or else that of the system; record whether the page is framed.
const root = document.documentElement;
const applyTheme = () => {
  const chosen = localStorage.getItem("theme");
  root.dataset.theme = ["light", "dark"].includes(chosen) ? chosen : "system";
};
applyTheme();
addEventListener("storage", applyTheme);
root.dataset.framed = window.self !== window.top;
