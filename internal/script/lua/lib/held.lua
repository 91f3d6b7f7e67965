-- held returns the reply for a lock that is held for ms, -1 without end. It is never a grant, whatever number is stored.
local function held(ms)
  return -1 - math.max(math.min(ms, 9e15), -1)
end
