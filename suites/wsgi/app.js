// The same endpoint on Express: node app.js HOST PORT FORM
// FORM is "express": as res.json() writes it; or "python": with the spaces that json.dumps() puts behind , and :
const express = require("express");
const fs = require("fs");
const path = require("path");

const [host, port, form] = process.argv.slice(2);
const orders = JSON.parse(fs.readFileSync(path.join(__dirname, "answer.json")));

// A line break in a text is written \n, so that those that are there come from the indentation.
const asPython = (data) => JSON.stringify(data, null, 1).replace(/,\n */g, ", ").replace(/\n */g, "");

const app = express();
app.get("/api", (request, response) => {
  if (form === "python") response.type("json").send(asPython(orders));
  else response.json(orders);
});
app.get("/ping", (request, response) => response.send("pong"));
app.listen(Number(port), host);
