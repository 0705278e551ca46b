// Times: UTC from the server, in the reader's zone here. The zone is printed in the header.
const pad = (number) => String(number).padStart(2, "0");

export const local = (date) =>
  `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ` +
  `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;

export const localise = (root) => {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    time.title = `${time.dateTime.slice(0, 23).replace("T", " ")} UTC`;
    time.textContent = local(date);
  }
};

localise(document);
const zone = document.querySelector("[data-time-zone]");
if (zone) zone.textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;
