import { Navigate, useLocation } from "@tanstack/react-router";

/** Leads to the sign-in, and from there back to the page that was asked for. */
export function ToSignIn() {
  const location = useLocation();
  return <Navigate to="/sign-in" search={{ from: location.href }} replace />;
}
