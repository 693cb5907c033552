"""From words on the command line or a suite file to targets."""
