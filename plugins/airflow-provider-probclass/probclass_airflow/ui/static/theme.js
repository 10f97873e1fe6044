// Light or dark as Airflow's own switch says, else as the system does; and whether it is framed.
const page = document.documentElement;
const follow = () => {
  const chosen = localStorage.getItem("theme");
  page.dataset.theme = ["light", "dark"].includes(chosen) ? chosen : "system";
};
follow();
addEventListener("storage", follow);
page.dataset.framed = window.self !== window.top;
