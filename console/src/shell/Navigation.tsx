import { Link, useLocation, useNavigate } from "@tanstack/react-router";
import { Ellipsis } from "lucide-react";

import type { Me } from "@/api/principal";
import { messages } from "@/messages";
import { Menu } from "@/parts/Menu";
import { pagesOf, type NavigationEntry } from "@/shell/pages";
import { PersonMenu } from "@/shell/PersonMenu";
import { WaitingCount } from "@/shell/WaitingCount";
import styles from "@/shell/Navigation.module.css";

/** How many pages stand beside each other on a narrow screen; the others are in a menu. */
const FIRST = 4;

/** The pages that the principal may use; at the side, or above the page on narrow screens. */
export function Navigation({ me }: { me: Me }) {
  const pages = pagesOf(me);
  return (
    <header className={styles.column}>
      <div className={styles.header}>
        <Link to="/" className={styles.name}>
          {messages.shell.name}
        </Link>
        <nav aria-label={messages.shell.navigation} className={styles.navigation}>
          <ul>
            {pages.map(({ to, label, icon: Icon }) => (
              <li key={to}>
                <Link to={to} className={styles.link} activeProps={{ "aria-current": "page" }}>
                  <Icon aria-hidden size={18} />
                  <span>{label}</span>
                  {to === "/inbox" && <WaitingCount />}
                </Link>
              </li>
            ))}
            {pages.length > FIRST && (
              <li className={styles.more}>
                <MorePages pages={pages.slice(FIRST)} />
              </li>
            )}
          </ul>
        </nav>
        <PersonMenu me={me} />
      </div>
    </header>
  );
}

/** The pages that a narrow screen has no room for. It has the name of the one that is open. */
function MorePages({ pages }: { pages: NavigationEntry[] }) {
  const { pathname } = useLocation();
  const navigate = useNavigate();
  const open = pages.find(({ to }) => pathname === to || pathname.startsWith(`${to}/`));
  const Icon = open?.icon ?? Ellipsis;
  return (
    <Menu
      trigger={
        <button
          type="button"
          className={styles.link}
          aria-label={
            open === undefined ? messages.shell.more : `${messages.shell.more}: ${open.label}`
          }
          {...(open === undefined ? {} : { "data-open-page": "" })}
        >
          <Icon aria-hidden size={18} />
          <span>{open?.label ?? messages.shell.moreShort}</span>
        </button>
      }
      items={pages.map(({ to, label }) => ({ label, onSelect: () => void navigate({ to }) }))}
    />
  );
}
