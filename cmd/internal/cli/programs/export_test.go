package programs

// DashboardDrain is the time that the dashboard has to end its streams.
const DashboardDrain = dashboardDrain
