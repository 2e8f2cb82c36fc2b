import { Link } from "@tanstack/react-router";

import type { Me } from "@/api/principal";
import { messages } from "@/messages";
import { pagesOf } from "@/shell/pages";
import { PersonMenu } from "@/shell/PersonMenu";
import { WaitingCount } from "@/shell/WaitingCount";
import styles from "@/shell/Navigation.module.css";

/** The pages that the principal may use; at the side, or above the page on narrow screens. */
export function Navigation({ me }: { me: Me }) {
  return (
    <header className={styles.header}>
      <Link to="/" className={styles.name}>
        {messages.shell.name}
      </Link>
      <nav aria-label={messages.shell.navigation} className={styles.navigation}>
        <ul>
          {pagesOf(me).map(({ to, label, icon: Icon }) => (
            <li key={to}>
              <Link to={to} className={styles.link} activeProps={{ "aria-current": "page" }}>
                <Icon aria-hidden size={18} />
                <span>{label}</span>
                {to === "/inbox" && <WaitingCount />}
              </Link>
            </li>
          ))}
        </ul>
      </nav>
      <PersonMenu me={me} />
    </header>
  );
}
