import {
  Activity,
  Inbox,
  KeyRound,
  ListTree,
  MessageSquare,
  ScrollText,
  Server,
  Users,
  Wrench,
  type LucideIcon,
} from "lucide-react";

import { can, type Me, type Role } from "@/api/principal";
import { messages } from "@/messages";

export interface NavigationEntry {
  to:
    | "/inbox"
    | "/sessions"
    | "/chat"
    | "/tools"
    | "/servers"
    | "/activity"
    | "/policy"
    | "/grants"
    | "/people";
  label: string;
  icon: LucideIcon;
  /** Who sees it; an admin sees everything. */
  roles: Role[];
}

const EVERYBODY: Role[] = ["caller", "approver", "auditor"];
const READERS: Role[] = ["caller", "auditor"];

const ENTRIES: NavigationEntry[] = [
  { to: "/inbox", label: messages.shell.inbox, icon: Inbox, roles: EVERYBODY },
  { to: "/sessions", label: messages.shell.sessions, icon: ListTree, roles: READERS },
  { to: "/chat", label: messages.shell.chat, icon: MessageSquare, roles: READERS },
  { to: "/tools", label: messages.shell.tools, icon: Wrench, roles: EVERYBODY },
  { to: "/servers", label: messages.shell.servers, icon: Server, roles: READERS },
  { to: "/activity", label: messages.shell.activity, icon: Activity, roles: READERS },
  { to: "/policy", label: messages.shell.policy, icon: ScrollText, roles: ["approver", "auditor"] },
  { to: "/grants", label: messages.shell.grants, icon: KeyRound, roles: ["approver", "auditor"] },
  { to: "/people", label: messages.shell.people, icon: Users, roles: ["admin"] },
];

/** The pages that a principal may use. The server refuses what is not here all the same. */
export function pagesOf(me: Me): NavigationEntry[] {
  return ENTRIES.filter((entry) => can(me, ...entry.roles));
}
