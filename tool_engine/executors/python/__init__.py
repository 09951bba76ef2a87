"""How does a tool run whose handler is named `package.module:function`?"""
