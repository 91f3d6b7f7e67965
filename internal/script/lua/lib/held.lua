-- held returns the reply that a lock is held for so many ms, -1 without end. No stored number makes it look like a grant.
local function held(ms)
  return -1 - math.max(math.min(ms, 9e15), -1)
end
