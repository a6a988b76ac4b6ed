const fs = require("fs");
fs.mkdirSync("dist", { recursive: true });
fs.copyFileSync("sum.js", "dist/sum.js");
