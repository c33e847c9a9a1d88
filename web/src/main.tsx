// The entry point of the page.

import { render } from "preact";
import { openSource } from "./api/open";
import { followAddress } from "./model/address";
import { followGrowth } from "./model/growth";
import { open } from "./model/recording";
import { followTheme } from "./model/theme";
import { Page } from "./shell/page";
import "./render/render.css";
import "./shell/page.css";
import "./shell/narrow.css";

followAddress();
followTheme();
const root = document.getElementById("page");
if (root) {
  render(<Page />, root);
  void openSource(document).then(open).then(followGrowth);
}
